package profiles

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSettledMemoryOutlastsNoise measures the same memory several times: later measurements that differ
// by less than half of the margin give the stored result, also in another process, and others do
// not.
func TestSettledMemoryOutlastsNoise(t *testing.T) {
	dir := t.TempDir()
	settle := func(measured int64) (int64, bool) {
		f, report := Load(dir)
		require.Empty(t, report)
		bytes, changed := f.Settle("driver", measured, 400, 800)
		require.NoError(t, f.Save(dir))
		return bytes, changed
	}
	for _, c := range []struct {
		measured, want int64
		changed        bool
	}{
		{7590, 8000, true},
		{7610, 8000, false},
		{7799, 8000, false},
		{7801, 8800, true},
		{7590, 8800, false},
		{6700, 7200, true},
		{100_000, 100_800, true},
		{7590, 8000, true},
	} {
		got, changed := settle(c.measured)
		require.Equal(t, c.want, got, "%d", c.measured)
		require.Equal(t, c.changed, changed, "%d", c.measured)
	}
}

// TestNeedsAreStored stores needs under several keys. A changed need replaces the stored one, an equal one
// changes nothing, and the file keeps a bounded number of them.
func TestNeedsAreStored(t *testing.T) {
	dir := t.TempDir()
	type need struct{ Bytes int64 }
	set := func(key string, n need) (changed bool) {
		f := loaded(t, dir)
		changed = f.SetNeed(key, &n)
		require.NoError(t, f.Save(dir))
		return changed
	}
	require.True(t, set("a", need{1}))
	require.False(t, set("a", need{1}))
	require.True(t, set("b", need{2}))
	require.True(t, set("a", need{3}))
	var n need
	require.True(t, loaded(t, dir).Need("a", &n))
	require.Equal(t, need{3}, n)
	require.True(t, loaded(t, dir).Need("b", &n))
	require.Equal(t, need{2}, n)
	require.False(t, loaded(t, dir).Need("c", &n))
	f := loaded(t, "")
	for i := range 10 * maxNeeds {
		require.True(t, f.SetNeed(fmt.Sprint(i), need{}))
		require.LessOrEqual(t, len(f.Needs), maxNeeds)
		require.True(t, f.Need(fmt.Sprint(i), &n))
	}
}

// TestCoveringMemoryNeverFalls measures a kernel several times: the stored result is the first that covers
// all measurements so far.
func TestCoveringMemoryNeverFalls(t *testing.T) {
	f := &File{}
	for _, c := range []struct {
		measured, want int64
		changed        bool
	}{
		{300, 800, true},
		{0, 800, false},
		{800, 800, false},
		{801, 1600, true},
		{300, 1600, false},
	} {
		got, changed := f.Cover("kernel", c.measured, 400, 800)
		require.Equal(t, c.want, got, "%d", c.measured)
		require.Equal(t, c.changed, changed, "%d", c.measured)
	}
}
