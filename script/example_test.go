package script_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/tpssim/tpssim/script"
)

// printer is an Executor that prints what a database would be asked.
type printer struct{}

func (printer) Exec(step int, sql string, args []any, row *script.Row) error {
	fmt.Println(sql, args)
	if row != nil {
		row.Columns, row.Values = append(row.Columns, "balance"), append(row.Values, int64(100))
	}
	return nil
}

func (printer) Sleep(d time.Duration) error {
	fmt.Println("sleep", d)
	return nil
}

func Example() {
	s, err := script.Parse("transfer.sql", strings.NewReader(`
\set id 7 * :scale
BEGIN;
SELECT balance FROM account WHERE id = :id \gset
\set rest :balance - 1
\sleep 2 ms
UPDATE account SET balance = :rest WHERE id = :id;
END;
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := s.Undefined("scale"); err != nil {
		fmt.Println(err)
		return
	}
	env, err := s.NewEnv(map[string]any{"scale": 10})
	if err != nil {
		fmt.Println(err)
		return
	}
	env.Reset(1, 0)
	for _, part := range []script.Part{script.Before, script.Inside, script.After} {
		if err := env.Run(part, printer{}); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// SELECT balance FROM account WHERE id = ?1 [70]
	// sleep 2ms
	// UPDATE account SET balance = ?1 WHERE id = ?2 [99 70]
}

func ExampleParse_notSupported() {
	_, err := script.Parse("transfer.sql", strings.NewReader("BEGIN;\n\\if :x\nSELECT 1;\n\\endif\nEND;"))
	fmt.Println(err)
	// Output:
	// transfer.sql:2: \if is not supported: use CASE in a \set, or two scripts with weights: -f a.sql@3 -f b.sql@1
}
