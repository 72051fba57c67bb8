package solve_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/solve"
)

// ended is work that is done, or failed.
type ended struct{ error }

func (ended) Done() bool    { return true }
func (e ended) Wait() error { return e.error }

// onlyClock is a device that nothing else is asked of.
type onlyClock struct{ hetero.Device }

func (onlyClock) Clock() hetero.Clock { return hetero.Wall() }

// TestFailedWorkIsToldHoweverOneWaits: a product that failed looks done, and nobody may
// take its rows for results.
func TestFailedWorkIsToldHoweverOneWaits(t *testing.T) {
	broken := errors.New("the device is gone")
	for _, fast := range []bool{false, true} {
		e := solve.Executor{Devices: [2]hetero.Device{onlyClock{}, onlyClock{}}, Fast: fast}
		pending := solve.Pending{Device: 1, Ticket: ended{broken}}
		require.ErrorIs(t, e.Await(pending), broken, "fast %v", fast)
		require.ErrorIs(t, e.Before(0, nil, []solve.Pending{pending}), broken, "fast %v", fast)
	}
}
