//go:build npu

package onnx

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/hetero"
)

// TestQueueStopsAtAFailure checks that no matmul runs after a failure and that every
// wait returns the error.
func TestQueueStopsAtAFailure(t *testing.T) {
	broken := errors.New("the driver has gone")
	var done []int
	q := newQueue(func(j submission) error {
		done = append(done, j.x.Offset)
		if j.x.Offset == 1 {
			return broken
		}
		return nil
	})
	var tickets []*ticket
	for i := range 4 {
		ticket, err := q.submit(submission{x: hetero.View{Offset: i}})
		if err != nil {
			require.ErrorIs(t, err, broken)
			break
		}
		tickets = append(tickets, ticket)
	}
	require.NoError(t, tickets[0].Wait())
	for _, ticket := range tickets[1:] {
		require.ErrorIs(t, ticket.Wait(), broken)
	}
	_, err := q.submit(submission{})
	require.ErrorIs(t, err, broken)
	require.ErrorIs(t, q.close(), broken)
	require.Equal(t, []int{0, 1}, done)
}

// TestQueueIsBounded checks that a full queue refuses work until it has room again.
func TestQueueIsBounded(t *testing.T) {
	begin := make(chan bool)
	q := newQueue(func(submission) error { <-begin; return nil })
	for range maxPending {
		_, err := q.submit(submission{})
		require.NoError(t, err)
	}
	_, err := q.submit(submission{})
	require.ErrorContains(t, err, "queue is full")
	close(begin)
	q.drain()
	last, err := q.submit(submission{})
	require.NoError(t, err)
	require.NoError(t, last.Wait())
	require.NoError(t, q.close())
}
