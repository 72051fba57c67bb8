package serve

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestQueueIsBounded checks who is refused.
func TestQueueIsBounded(t *testing.T) {
	q := newQueue(1, 4)
	admit := func(name string) *ticket {
		ticket, err := q.admit(name)
		require.NoError(t, err)
		return ticket
	}
	tickets := []*ticket{admit("a"), admit("a"), admit("a")}
	_, err := q.admit("a")
	require.ErrorIs(t, err, errYours, "one runs, and half of the queue waits")
	tickets = append(tickets, admit("b"), admit("c"))
	_, err = q.admit("d")
	require.ErrorIs(t, err, errBusy)
	require.Equal(t, 5, q.length())
	require.NoError(t, tickets[0].wait(t.Context()))
	require.Equal(t, 4, q.length())
	for _, ticket := range tickets {
		ticket.done()
	}
	require.Zero(t, q.length())
	require.Zero(t, q.running)
	require.Empty(t, q.clients)
	q.close()
	_, err = q.admit("a")
	require.ErrorIs(t, err, errClosed)
}

// TestClientsTakeTurns checks that a client with many requests does not delay another one more than a request.
func TestClientsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1, 10)
		order := make(chan string, 10)
		ask := func(client string) {
			ticket, err := q.admit(client)
			require.NoError(t, err)
			go func() {
				defer ticket.done()
				if ticket.wait(t.Context()) == nil {
					order <- client
					time.Sleep(time.Second)
				}
			}()
			synctest.Wait()
		}
		for range 4 {
			ask("many")
		}
		ask("one")
		ask("two")
		time.Sleep(time.Minute)
		var got []string
		for range 6 {
			got = append(got, <-order)
		}
		require.Equal(t, []string{"many", "one", "two", "many", "many", "many"}, got)
		require.Equal(t, 1, q.retryAfter(), "nothing waits")
	})
}

// TestLeavingTheQueue checks that a request whose client leaves while it waits gives its place to the next one, and
// that the wait of new requests is estimated from the time that others took.
func TestLeavingTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1, 10)
		first, _ := q.admit("a")
		require.NoError(t, first.wait(t.Context()))
		gone := errors.New("gone")
		ctx, leave := context.WithCancelCause(t.Context())
		second, _ := q.admit("b")
		third, _ := q.admit("c")
		left := make(chan error, 1)
		go func() { left <- second.wait(ctx); second.done() }()
		synctest.Wait()
		started := make(chan error, 1)
		go func() { started <- third.wait(t.Context()) }()
		synctest.Wait()
		leave(gone)
		require.ErrorIs(t, <-left, gone)
		time.Sleep(80 * time.Second)
		first.done()
		require.NoError(t, <-started)
		require.Equal(t, 20, q.retryAfter(), "a quarter of the time of the last request")
		third.done()
	})
}
