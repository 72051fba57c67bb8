package weights

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// evict takes the pages of a mapped file out of memory.
func evict(t *testing.T, path string) {
	for _, at := range testutil.Mappings(t, path) {
		_, _, failed := syscall.Syscall(syscall.SYS_MADVISE, at.From, at.To-at.From, syscall.MADV_DONTNEED) // unmaps the pages
		require.Zero(t, failed)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, file.Sync())
	const drop = 4 // POSIX_FADV_DONTNEED
	_, _, failed := syscall.Syscall6(syscall.SYS_FADVISE64, file.Fd(), 0, 0, drop, 0, 0)
	require.Zero(t, failed)
	require.NoError(t, file.Close())
}

// TestEvictedBlocksAreVerified damages blocks in a file whose pages are not in memory, without a
// sign in the stamp: the check of the layer finds them, with little time in a later pass.
func TestEvictedBlocksAreVerified(t *testing.T) {
	r, path, at := mapModel(t)
	r.check.stamped = false
	c := &r.check
	pass := func(credit time.Duration) error {
		c.evictions.restart(0)
		c.evictions.credit = credit
		for i := range r.Sections {
			if err := r.CheckEvicted(i); err != nil {
				return err
			}
		}
		return nil
	}
	require.NoError(t, pass(time.Minute))
	flip(t, path, at)
	require.NoError(t, pass(time.Minute), "the page is in memory")
	evict(t, path)
	if _, found := r.Sections[1].mapping.NextEvicted(0, r.Sections[1].Size); !found {
		t.Skip("this system does not drop pages, or does not report it")
	}
	before := admitted(r)
	err := pass(1)
	for n := 0; err == nil && n < 10*r.mappedBytes()/probeStep+10*len(r.Sections); n++ {
		err = pass(1)
	}
	require.ErrorIs(t, err, store.ErrFormat)
	require.ErrorContains(t, err, path)
	require.Greater(t, admitted(r), before, "reads of evicted pages are admitted")
}

// TestReadAheadHidesNothing takes all pages out of memory and damages the last layer: the reads of
// the layers before it read ahead, but one pass finds it.
func TestReadAheadHidesNothing(t *testing.T) {
	r, path, _ := mapModel(t)
	r.check.stamped = false
	last := &r.Sections[len(r.Sections)-2]
	tensor, ok := r.File.Tensor(fmt.Sprintf("blk.%d.ffn_down.weight", last.Layer))
	require.True(t, ok)
	flip(t, path, tensor.Offset+9)
	evict(t, path)
	if _, found := last.mapping.NextEvicted(0, last.Size); !found {
		t.Skip("this system does not drop pages, or does not report it")
	}
	r.check.evictions.credit = time.Hour
	var err error
	for i := range r.Sections {
		if err = r.CheckEvicted(i); err != nil {
			break
		}
	}
	require.ErrorIs(t, err, store.ErrFormat)
}

// TestFaultsDuringALayerAreFound takes pages out of memory while a layer uses them: its fault reads
// damaged bytes, and logits do not leave the pass.
func TestFaultsDuringALayerAreFound(t *testing.T) {
	r, path, at := mapModel(t)
	r.check.stamped = false
	r.check.evictions.credit = time.Hour
	require.NoError(t, r.CheckEvicted(1))
	flip(t, path, at)
	evict(t, path)
	before := vfs.HardFaults()
	l := &r.Sections[1]
	sum := byte(0)
	for i := 0; i < l.Size; i += 512 {
		sum += l.mapping.Bytes()[i]
	}
	if vfs.HardFaults() == before {
		t.Skipf("this system does not drop pages, or does not count faults (%d)", sum)
	}
	require.ErrorIs(t, r.CheckMapped(t.Context()), store.ErrFormat)
	require.ErrorIs(t, r.CheckEvicted(1), store.ErrFormat, "as long as the damage is there")
	flip(t, path, at)
	require.NoError(t, r.CheckMapped(t.Context()))
	for i := range r.Sections {
		require.NoError(t, r.CheckEvicted(i))
	}
	require.Zero(t, r.check.evictions.marked, "what the system has read around it is verified before its use")
	require.True(t, r.check.evictions.found)
	r.check.evictions.restart(0)
	require.True(t, r.check.evictions.pressed, "the next pass asks for all pages")
}
