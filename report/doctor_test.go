package report

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tpssim/tpssim/doctor"
)

// examined is what a doctor may have found.
func examined() *doctor.Report {
	return &doctor.Report{
		Schema:    doctor.Schema,
		StartedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Elapsed:   9 * time.Second,
		Path:      "/data/of/somebody/with/a/long/name/tpssim.db",
		DataBytes: 12 << 20,
		Checks: []doctor.Check{
			{Name: "folder", Status: doctor.OK, Finding: "/data/of/somebody/with/a/long/name may be written to (ext4)"},
			{Name: "space", Status: doctor.Fail, Finding: "5.0 MiB free; 12 MiB needed for the data set and 64 MiB for its WAL",
				Advice: "make room, choose another folder with --db, or fewer --rows", Values: map[string]float64{"free_bytes": 5 << 20}},
			{Name: "random_write", Status: doctor.Warn, Finding: "100 IOPS one at a time (p50 10 ms, p99 20 ms), 150 IOPS by 32",
				Advice: "expect checkpoints to hold the writer up: --checkpoint with more pages makes them rarer"},
		},
	}
}

func TestDoctor(t *testing.T) {
	one := examined()
	one.Checks[1].Status = doctor.Warn
	one.Checks[2].Status = doctor.OK
	fine := examined()
	fine.Checks = fine.Checks[:1]
	interrupted := examined()
	interrupted.Interrupted = true
	for name, r := range map[string]*doctor.Report{
		"doctor": examined(), "doctor-one": one, "doctor-fine": fine, "doctor-interrupted": interrupted,
	} {
		plain, colored := rendered(t, Doctor(r, false)), rendered(t, Doctor(r, true))
		golden(t, name, plain)
		if strings.Contains(plain, "\x1b") {
			t.Errorf("%s: there are colours that nobody asked for", name)
		}
		if !strings.Contains(colored, "\x1b[") || escape.ReplaceAllString(colored, "") != plain {
			t.Errorf("%s: colours change more than the colour", name)
		}
		for line := range strings.Lines(plain) {
			line = strings.TrimSuffix(line, "\n")
			if n := utf8.RuneCountInString(line); n > 80 || strings.TrimRight(line, " ") != line {
				t.Errorf("%s: %d columns: %q", name, n, line)
			}
		}
	}
}

func TestDoctorJSON(t *testing.T) {
	text := rendered(t, DoctorJSON(examined()))
	var back doctor.Report
	if err := json.Unmarshal([]byte(text), &back); err != nil {
		t.Fatal(err)
	}
	if back.Checks[1].Values["free_bytes"] != 5<<20 || back.Checks[1].Status != doctor.Fail || back.Count(doctor.Warn) != 1 {
		t.Errorf("%+v", back)
	}
	if !strings.HasPrefix(text, "{\n  \"schema\": \"tpssim.doctor/1\",\n") || !strings.HasSuffix(text, "}\n") {
		t.Errorf("%s", text)
	}
}
