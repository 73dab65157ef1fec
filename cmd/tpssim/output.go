package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// output is a result file, or nothing.
type output struct {
	file *os.File
	made bool // by this run
}

func (o output) Write(p []byte) (int, error) {
	if o.file == nil {
		return len(p), nil
	}
	return o.file.Write(p)
}

func (o output) Close() error {
	if o.file == nil {
		return nil
	}
	return o.file.Close()
}

// abandon closes the file when there is no result to write.
func (o output) abandon() error {
	err := o.Close()
	if o.made {
		err = errors.Join(err, os.Remove(o.file.Name()))
	}
	return err
}

// openOutput opens a result file before the run, so that a long one is not in
// vain.
func openOutput(path string) (output, error) {
	if path == "" {
		return output{}, nil
	}
	const how = os.O_CREATE | os.O_APPEND | os.O_WRONLY
	f, err := os.OpenFile(path, how|os.O_EXCL, 0o666)
	if err == nil {
		return output{f, true}, nil
	}
	if errors.Is(err, fs.ErrExist) {
		f, err = os.OpenFile(path, how, 0o666)
	}
	if err != nil {
		return output{}, fmt.Errorf("cannot write to -o %s: %w: choose another file", path, errors.Unwrap(err))
	}
	return output{f, false}, nil
}
