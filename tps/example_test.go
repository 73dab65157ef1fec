package tps_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/tpssim/tpssim/tps"
)

// A closed loop over an Op that fails now and then.
func ExampleRun() {
	res, err := tps.Run(context.Background(), tps.Config{
		Op: func(ctx context.Context, i uint64, t *tps.Trace) error {
			if i%10 == 9 {
				return errors.New("funds are short")
			}
			return nil
		},
		Transactions: 1000,
		Concurrency:  4,
		Classify:     func(error) string { return "funds" },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(res.Load.Mode, res.Acknowledged, "acknowledged", res.Errors)
	// Output: closed 900 acknowledged map[funds:100]
}

// A load that makes no sense is refused in the terms of the command line.
func ExampleConfig_Validate() {
	cfg := tps.Config{
		Op:          func(context.Context, uint64, *tps.Trace) error { return nil },
		Rate:        5000,
		Concurrency: 64,
	}
	fmt.Println(cfg.Validate())
	// Output: -c cannot be used with -R: an open loop starts transactions on schedule whoever waits; use --max-in-flight to bound it
}
