package weights

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// mapModel maps all weights of a small model and returns the offset of a mapped byte.
func mapModel(t *testing.T) (r *Residency, path string, at int64) {
	dir := filepath.Dir(testutil.Glob(t, "fixtures", "*/config.json")[0])
	source, err := modelfile.Open(vfs.OS(), dir)
	require.NoError(t, err)
	defer source.Close()
	path = filepath.Join(t.TempDir(), "m.pack")
	require.NoError(t, Import(t.Context(), source, vfs.OS(), path, ImportOptions{}))
	f, err := modelfile.Open(vfs.OS(), path)
	require.NoError(t, err)
	spec, err := f.Spec()
	require.NoError(t, err)
	ts, err := f.TensorsFor(false)
	require.NoError(t, err)
	budget := tiering.New(0)
	plan := &tiering.Plan{Pinned: make([]int64, len(spec.Layers)), HeadPinned: 1 << 40}
	for i := range plan.Pinned {
		plan.Pinned[i] = 1 << 40
	}
	scheduler := prefetch.NewScheduler()
	_, ld, err := LoadWeights(context.Background(), ts, spec, LoadOptions{Budget: budget, Plan: plan, PinFile: true, Scheduler: scheduler})
	require.NoError(t, err)
	ld.Residency.Threads.Scheduler = scheduler
	t.Cleanup(func() {
		ld.Free()
		require.NoError(t, budget.Check())
		require.NoError(t, f.Close())
	})
	require.True(t, ld.Residency.Mapped)
	tensor, ok := f.Packed().Tensor("blk.1.attn_q.weight")
	require.True(t, ok)
	return ld.Residency, path, tensor.Offset + 9
}

// admitted returns the bytes that a residency has waited for.
func admitted(r *Residency) int64 { return r.Threads.Scheduler.Stats()[prefetch.Awaited].Bytes }

// TestMappedReadsAreAdmitted checks that the reads of mapped sections count as those that somebody
// waits for, when they are loaded and when their file has changed. A scan of what is in memory
// reads nothing.
func TestMappedReadsAreAdmitted(t *testing.T) {
	r, path, _ := mapModel(t)
	loaded := admitted(r)
	require.GreaterOrEqual(t, loaded, int64(r.mappedBytes()))
	require.NoError(t, r.scan(r.mappedBytes()))
	require.Equal(t, loaded, admitted(r))
	other := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	require.NoError(t, os.Chtimes(path, other, other))
	require.NoError(t, r.CheckMapped(t.Context()))
	if r.check.stamped {
		require.Equal(t, loaded+int64(r.mappedBytes()), admitted(r))
	}
}

// flip inverts a byte of a file.
func flip(t *testing.T, path string, at int64) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	var one [1]byte
	_, err = file.ReadAt(one[:], at)
	require.NoError(t, err)
	one[0] ^= 0xff
	_, err = file.WriteAt(one[:], at)
	require.NoError(t, err)
	require.NoError(t, file.Close())
}

// TestScanFindsDamageWithoutStamp damages a mapped file whose stamp does not tell: the scan
// finds the block within scanPeriod, and within scanShare passes after a longer pause.
func TestScanFindsDamageWithoutStamp(t *testing.T) {
	r, path, at := mapModel(t)
	r.check.stamped = false
	for range 3 * scanShare {
		require.NoError(t, r.ScanMapped())
	}
	flip(t, path, at)
	require.NoError(t, r.CheckMapped(t.Context()), "it relies on the stamp")
	blocks := r.mappedBytes()/pack.BlockBytes + len(r.Sections)
	var err error
	for n := 0; err == nil && n < blocks+scanShare; n++ {
		r.check.scanned = time.Time{} // long ago
		err = r.ScanMapped()
	}
	var damage *store.FormatError
	require.ErrorAs(t, err, &damage)
	require.Equal(t, path, damage.Path)
	require.InDelta(t, at, damage.Off, pack.BlockBytes)

	flip(t, path, at) // restored
	for range blocks {
		r.check.scanned = time.Time{}
		require.NoError(t, r.ScanMapped())
	}
}

// TestScanIsBounded checks that one call verifies no more than its part, even after a pause,
// and that an urgent scan covers everything once.
func TestScanIsBounded(t *testing.T) {
	r, _, _ := mapModel(t)
	c, all := &r.check, r.mappedBytes()
	c.unsettled = false
	for range 50 {
		c.scanned = time.Time{}
		section, at := c.section, c.at
		require.NoError(t, r.ScanMapped())
		if section == c.section {
			require.LessOrEqual(t, c.at-at, max(all/scanShare, pack.BlockBytes)+pack.BlockBytes)
		}
	}
	c.urgent = all
	for range all/pack.BlockBytes + len(r.Sections) {
		now := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
		c.scanned = now // no time has passed, so that only the urgent scan has a part
		require.NoError(t, r.scanAt(now))
	}
	require.Zero(t, c.urgent)
}

// TestCheckMappedFollowsTheStamp overwrites a mapped file: the check fails until the bytes are
// restored. Bytes that are written unchanged do no harm.
func TestCheckMappedFollowsTheStamp(t *testing.T) {
	r, path, at := mapModel(t)
	if !r.check.stamped {
		t.Skip("the file system does not tell changes")
	}
	require.NoError(t, r.CheckMapped(t.Context()))
	testutil.NextFileTime(t) // the change gets another stamp
	flip(t, path, at)
	require.ErrorIs(t, r.CheckMapped(t.Context()), store.ErrFormat)
	require.ErrorIs(t, r.CheckMapped(t.Context()), store.ErrFormat, "the error stays while the damage does")
	flip(t, path, at)
	require.NoError(t, r.CheckMapped(t.Context()))
	stamp, _, err := r.File.Stamp()
	require.NoError(t, err)
	require.Equal(t, stamp, r.check.stamp)
}

// TestTruncatedMappingNamesTheOffset truncates a mapped file at a block.
func TestTruncatedMappingNamesTheOffset(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a mapped file cannot be truncated there")
	}
	r, path, at := mapModel(t)
	require.NoError(t, os.Truncate(path, at/pack.BlockBytes*pack.BlockBytes))
	err := r.CheckMapped(t.Context())
	var damage *store.FormatError
	require.ErrorAs(t, err, &damage)
	require.ErrorIs(t, err, store.ErrTruncated)
	require.Equal(t, path, damage.Path)
	require.GreaterOrEqual(t, damage.Off, at/pack.BlockBytes*pack.BlockBytes)
}
