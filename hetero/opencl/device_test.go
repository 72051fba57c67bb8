package opencl

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/tiering"
)

// TestFetchChangesOnlyWhatWasWritten splits the columns of a matmul on a device that
// copies. Another device writes next to it, between Flush and Fetch.
func TestFetchChangesOnlyWhatWasWritten(t *testing.T) {
	d, budget := open(t)
	d.context.SharesMemory = false
	const cols, height, width = 32, 8, 12
	for _, tokens := range []int{1, 3} {
		pool, err := hetero.NewBufferPool(budget, 2, 4*tokens*cols, d)
		require.NoError(t, err)
		x, y := hetero.View{Buffer: pool.Take(), Stride: cols}, hetero.View{Buffer: pool.Take(), Stride: width}
		for i := range x.Buffer.Floats() {
			x.Buffer.Floats()[i] = 1
		}
		weights := make([]float32, height*cols)
		for i := range weights {
			weights[i] = 1
		}
		k, err := d.Prepare(hetero.Op{Tokens: tokens, Rows: height, Cols: cols, Type: quant.F32, Weights: floatBytes(weights)})
		require.NoError(t, err)
		require.NoError(t, errors.Join(d.Flush(x.Buffer), d.Flush(y.Buffer)))
		for i := range y.Buffer.Floats() {
			y.Buffer.Floats()[i] = 7 // by another device
		}
		_, err = k.Submit(x, y.At(0, 2))
		require.NoError(t, err)
		require.NoError(t, d.Fetch(y.Buffer))
		for i, v := range y.Buffer.Floats() {
			want := float32(7)
			if token, col := i/width, i%width; token < tokens && col >= 2 && col < 2+height {
				want = cols
			}
			require.Equal(t, want, v, "%d tokens, element %d", tokens, i)
		}
		y.Buffer.Floats()[2] = 8
		require.NoError(t, errors.Join(d.Flush(y.Buffer), d.Fetch(y.Buffer)))
		require.EqualValues(t, 8, y.Buffer.Floats()[2], "nothing was written since the last Flush")
		_, err = k.Submit(x, y.At(0, 2))
		require.NoError(t, err)
		require.NoError(t, d.FlushRows(y, tokens, 2)) // adjacent rows
		require.NoError(t, d.Fetch(y.Buffer))
		require.EqualValues(t, cols, y.Buffer.Floats()[2], "flushing adjacent rows keeps the result")
		_, err = k.Submit(x, y.At(0, 2))
		require.NoError(t, err)
		y.Buffer.Floats()[2] = 9
		require.NoError(t, errors.Join(d.FlushRows(y, tokens, width), d.Fetch(y.Buffer)))
		require.EqualValues(t, 9, y.Buffer.Floats()[2], "another device has written there since")
		require.NoError(t, k.Close())
		pool.Close() // the device has copies
	}
}

// TestTicketsEndInOrder waits for the last of several tickets, which releases the
// events of all, and leaves one ticket to Close.
func TestTicketsEndInOrder(t *testing.T) {
	budget := tiering.New(0)
	d, err := OpenDevice(Options{Budget: budget})
	need(t, err)
	pool, err := hetero.NewBufferPool(budget, 2, 4096, d)
	require.NoError(t, err)
	x, y := hetero.View{Buffer: pool.Take(), Stride: 32}, hetero.View{Buffer: pool.Take(), Stride: 8}
	k, err := d.Prepare(hetero.Op{Tokens: 1, Rows: 8, Cols: 32, Type: quant.F32, Weights: make([]byte, 4*8*32)})
	require.NoError(t, err)
	var tickets []hetero.Ticket
	for range 4 {
		ticket, err := k.Submit(x, y)
		require.NoError(t, err)
		tickets = append(tickets, ticket)
	}
	require.NoError(t, tickets[2].Wait())
	for i, want := range []bool{true, true, true, false} {
		require.Equal(t, want, tickets[i].(*ticket).done, "ticket %d", i)
	}
	require.Len(t, d.openTickets, 1)
	require.NoError(t, errors.Join(tickets[0].Wait(), k.Close(), d.Close()))
	require.True(t, tickets[3].Done())
	require.Empty(t, d.openTickets)
	pool.Close()
	require.NoError(t, budget.Check())
}
