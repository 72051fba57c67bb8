package prefetch

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
)

// writerFunc is a function that implements io.WriterAt.
type writerFunc func(p []byte, off int64) (int, error)

func (f writerFunc) WriteAt(p []byte, off int64) (int, error) { return f(p, off) }

// TestWriterWritesBehind runs jobs one after another and takes their results with Poll,
// Wait and Stop.
func TestWriterWritesBehind(t *testing.T) {
	reserved := 0
	w := &Writer{Reserve: func(n int) { reserved += n }}
	var got []byte
	to := writerFunc(func(p []byte, off int64) (int, error) {
		require.EqualValues(t, len(got), off)
		got = append(got, p...)
		return len(p), nil
	})
	job := func(write WriteFunc) error {
		for range 3 {
			if err := write(to, []byte("piece"), int64(len(got))); err != nil {
				return err
			}
		}
		return nil
	}
	w.Start(job, Deadline{})
	require.True(t, w.Busy())
	ended, err := w.Wait(t.Context())
	require.True(t, ended)
	require.NoError(t, err)
	require.False(t, w.Busy())
	require.Len(t, got, 15)
	w.Start(job, Deadline{})
	for ended = false; !ended; ended, err = w.Poll() {
	}
	require.NoError(t, err)
	require.Len(t, got, 30)
	require.Equal(t, 1, reserved)
	ended, _ = w.Poll()
	require.False(t, ended)
	w.Close()
	w.Close()
	w.Start(job, Deadline{})
	_, err = w.Wait(t.Context())
	require.ErrorIs(t, err, ErrClosed)
	require.Len(t, got, 30)
}

// TestWriterStops stops a job between two pieces, and cancels a wait.
func TestWriterStops(t *testing.T) {
	w := &Writer{}
	defer w.Close()
	inWrite, proceed := make(chan struct{}), make(chan struct{})
	to := writerFunc(func(p []byte, off int64) (int, error) {
		inWrite <- struct{}{}
		<-proceed
		return len(p), nil
	})
	pieces := 0
	w.Start(func(write WriteFunc) error {
		for {
			if err := write(to, make([]byte, 10), 0); err != nil {
				return err
			}
			pieces++
		}
	}, Deadline{})
	<-inWrite
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ended, err := w.Wait(ctx)
	require.False(t, ended)
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, w.Busy())
	w.stopped.Store(true) // as Stop does, before the write returns
	close(proceed)
	ended, err = w.Stop()
	require.True(t, ended)
	require.ErrorIs(t, err, ErrClosed)
	require.Equal(t, 1, pieces)
}

// TestWriterReturnsErrors returns the error of the device unchanged.
func TestWriterReturnsErrors(t *testing.T) {
	w := &Writer{}
	defer w.Close()
	broken := errors.New("broken")
	w.Start(func(write WriteFunc) error {
		return write(writerFunc(func([]byte, int64) (int, error) { return 0, broken }), []byte{1}, 0)
	}, Deadline{})
	_, err := w.Wait(t.Context())
	require.ErrorIs(t, err, broken)
}

// TestWritingBehindAllocatesNothing runs a job that allocates nothing itself.
func TestWritingBehindAllocatesNothing(t *testing.T) {
	w := &Writer{}
	defer w.Close()
	var to io.WriterAt = writerFunc(func(p []byte, _ int64) (int, error) { return len(p), nil })
	piece := make([]byte, 1)
	job := func(write WriteFunc) error { return write(to, piece, 0) }
	run := func() {
		w.Start(job, Deadline{})
		if _, err := w.Wait(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	run()
	require.Zero(t, testutil.AllocsPerRun(20, 0, run))
}
