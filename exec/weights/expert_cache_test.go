package weights

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/prefetch"
)

// TestRefusedGuessDelaysNoExpert fills the scheduler, so that a predicted read is refused. The read
// of a selected expert comes first nevertheless, and the prediction is read when there is room.
func TestRefusedGuessDelaysNoExpert(t *testing.T) {
	scheduler := prefetch.NewScheduler()
	content := bytes.Repeat([]byte{7}, 100)
	var r expertReads
	r.open(2, 2, 1, scheduler)
	defer r.close()
	full, ok := scheduler.Admit(prefetch.Streamed, 64<<20)
	require.True(t, ok)
	submit := func(list *slotList, at int32) []byte {
		r.Mu.Lock()
		defer r.Mu.Unlock()
		r.Slots[at] = expertSlot{ID: at, from: bytes.NewReader(content), memory: make([]byte, 100)}
		list.push(at)
		r.work.Broadcast()
		return r.Slots[at].memory
	}
	busy := func(at int32) bool {
		r.Mu.Lock()
		defer r.Mu.Unlock()
		return r.Slots[at].busy()
	}
	guess := submit(&r.guessed, 0)
	selected := submit(&r.required, 1)
	require.NoError(t, r.wait(t.Context()))
	require.False(t, busy(1))
	require.Equal(t, content, selected)
	require.True(t, busy(0), "the guess waits")
	scheduler.Done(full)
	require.NoError(t, r.wait(t.Context()))
	require.False(t, busy(0))
	require.Equal(t, content, guess)
	stats := scheduler.Stats()
	require.EqualValues(t, 1, stats[prefetch.Guessed].Transfers)
	require.EqualValues(t, 1, stats[prefetch.Guessed].Waits)
	require.EqualValues(t, 1, stats[prefetch.Awaited].Transfers)
}
