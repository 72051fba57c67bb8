package exec

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/calib"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/internal/trace"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/store/w8a8"
	"github.com/llmrun/llmrun/tiering"
)

// someIDs returns token ids that are in every fixture's vocabulary.
func someIDs(n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(i*i*7+i) % 200
	}
	return ids
}

// calibrated writes a calibration of a model to fsys as "c", with the columns of the most
// important inputs.
func calibrated(t *testing.T, fsys vfs.FS, dir string, stored float64) *w8a8.Index {
	t.Helper()
	f, err := modelfile.Open(vfs.OS(), dir)
	require.NoError(t, err)
	defer f.Close()
	var last int64
	index, err := MeasureOutliers(context.Background(), f, someIDs(160), Options{Exact: true, Threads: 2},
		OutlierOptions{Made: "a test", Fraction: 0.02, Progress: func(done, total int64) {
			require.LessOrEqual(t, last, done)
			last = done
			require.EqualValues(t, 160, total)
		}})
	require.NoError(t, err)
	require.EqualValues(t, 160, last)
	keep := map[string]bool{}
	for in, hasPath := range OutlierFraction(stored).Of(index.Inputs) {
		keep[in.Name] = hasPath
	}
	require.NoError(t, calib.WriteCalibration(context.Background(), f, fsys, "c", index, func(in *w8a8.Input) bool { return keep[in.Name] }, nil))
	return index
}

// loadW8A8 loads a model with its calibration.
func loadW8A8(t *testing.T, fsys vfs.FS, dir string, o Options, whole W8A8) *Model {
	t.Helper()
	c, err := w8a8.Open(fsys, "c")
	require.NoError(t, err)
	f, err := modelfile.Open(vfs.OS(), dir)
	require.NoError(t, err)
	require.NoError(t, calib.UsePerRowInt8(t.Context(), f, c))
	whole.Calibration = c
	o.W8A8, o.Budget = &whole, tiering.New(0)
	m, err := Load(context.Background(), f, o)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	t.Cleanup(func() {
		m.Close()
		require.NoError(t, c.Close())
		require.NoError(t, o.Budget.Check())
		require.Zero(t, o.Budget.Usage().Total)
	})
	return m
}

// TestCalibrationCounts compares a calibration with independent counts: fractions, order and hot
// channels.
func TestCalibrationCounts(t *testing.T) {
	fsys := vfs.NewMem()
	index := calibrated(t, fsys, modeltest.Fixture(t, "llama3"), 1)
	spec := loadModel(t, vfs.OS(), modeltest.Fixture(t, "llama3"), Options{Threads: 1}).Spec
	require.Len(t, index.Inputs, 4*len(spec.Layers), "QKV, output, gate and up, down")
	require.Equal(t, "blk.0.attn_q.weight", index.Inputs[0].Name)
	require.Len(t, index.Inputs[0].Matrices, 3)
	for _, in := range index.Inputs {
		require.EqualValues(t, 160*in.Cols, in.Elements, in.Name)
		require.LessOrEqual(t, float64(in.Outliers), 0.02*float64(in.Elements), in.Name)
		require.GreaterOrEqual(t, in.Importance(), 1-1e-6, in.Name)
		require.GreaterOrEqual(t, in.ClippedErrorRatio, float32(0.99), in.Name)
		var sum, hot int64
		for i, c := range in.Channels {
			sum += c.Count
			if i < in.Hot {
				hot += c.Count
			}
			if i > 0 {
				require.LessOrEqual(t, c.Count, in.Channels[i-1].Count)
			}
		}
		require.Equal(t, in.Outliers, sum)
		require.Equal(t, float64(hot)/float64(max(1, sum)), in.HotFraction())
		require.LessOrEqual(t, in.Hot, max(1, in.Cols*3/100))
	}
	last := 1e30
	for in := range DefaultOutlierChoice.Of(index.Inputs) {
		require.LessOrEqual(t, in.Importance(), last)
		last = in.Importance()
	}
}

// TestOutliersOfLongTextsAreTheSame calibrates with a text, with few and with many outliers, in
// one pass, and again in two passes, as if the text were too long to collect candidates.
func TestOutliersOfLongTextsAreTheSame(t *testing.T) {
	f, err := modelfile.Open(vfs.OS(), modeltest.Fixture(t, "llama3"))
	require.NoError(t, err)
	defer f.Close()
	for _, share := range []float64{0, 0.001, 0.05, 1} {
		var counts []int64
		measured := func(room int64) *w8a8.Index {
			defer func(was int64) { calib.MaxCandidateBytes = was }(calib.MaxCandidateBytes)
			calib.MaxCandidateBytes = room
			var read int64
			index, err := MeasureOutliers(context.Background(), f, someIDs(700), Options{Exact: true, Threads: 2},
				OutlierOptions{Fraction: share, Progress: func(done, _ int64) { read = done }})
			require.NoError(t, err)
			counts = append(counts, read)
			return index
		}
		require.Equal(t, measured(0), measured(calib.MaxCandidateBytes), "share %g", share)
		require.Equal(t, []int64{1400, 700}, counts)
	}
}

// TestPerTensorScalesAreAsGoodAsGroups runs several families, one with fused matrices, with all
// outlier paths. The fixtures have few outliers, so the result must be about as near to floats
// as with a scale for each group of 32.
func TestPerTensorScalesAreAsGoodAsGroups(t *testing.T) {
	for _, family := range []string{"llama3", "phi3", "qwen2", "gpt_neox", "lfm2"} {
		t.Run(family, func(t *testing.T) {
			dir, fsys, ids := modeltest.Fixture(t, family), vfs.NewMem(), someIDs(40)
			calibrated(t, fsys, dir, 1)
			want := allLogits(t, loadModel(t, vfs.OS(), dir, Options{Threads: 2, Exact: true}), ids)
			mean := func(m *Model) (sum float64) {
				for i, got := range allLogits(t, m, ids) {
					sum += distance(want[i], got) / float64(len(want))
				}
				return sum
			}
			f, err := modelfile.Open(vfs.OS(), dir)
			require.NoError(t, err)
			defer f.Close()
			require.NoError(t, f.Quantize("q8", nil))
			groups, err := Load(context.Background(), f, Options{Threads: 2})
			require.NoError(t, err)
			defer groups.Close()
			m := loadW8A8(t, fsys, dir, Options{Threads: 2}, W8A8{Outliers: OutlierFraction(1)})
			whole, grouped := mean(m), mean(groups)
			t.Logf("logits differ by %.3f, and by %.3f with groups", whole, grouped)
			require.Less(t, whole, 1.25*grouped)
			require.Positive(t, whole)
			require.Positive(t, m.OutlierStats().Outliers)
		})
	}
}

// TestW8A8IsInvariant computes the same tokens in other chunks, with other threads, and one by
// one.
func TestW8A8IsInvariant(t *testing.T) {
	dir, fsys := modeltest.Fixture(t, "llama3"), vfs.NewMem()
	calibrated(t, fsys, dir, 1)
	ids := someIDs(70)
	all := W8A8{Outliers: OutlierFraction(1)}
	want := allLogits(t, loadW8A8(t, fsys, dir, Options{Threads: 1, KV: kv.K8V8}, all), ids)
	for _, o := range []Options{{Threads: 3, KV: kv.K8V8}, {Threads: 2, Chunk: 17, KV: kv.K8V8}, {Threads: 2, Chunk: 1, KV: kv.K8V8}} {
		m := loadW8A8(t, fsys, dir, o, all)
		require.Equal(t, want, allLogits(t, m, ids))
		require.NoError(t, m.SetThreads(2))
		require.Equal(t, want, allLogits(t, m, ids))
		require.Positive(t, m.OutlierStats().Hot)
		require.Positive(t, m.OutlierStats().Fetched)
		require.Less(t, m.OutlierStats().Resident, m.OutlierStats().All/20)
	}
}

// TestOutlierPathAllocatesNothing decodes tokens that fetch columns.
func TestOutlierPathAllocatesNothing(t *testing.T) {
	dir, fsys := modeltest.Fixture(t, "llama3"), vfs.NewMem()
	calibrated(t, fsys, dir, 1)
	m := loadW8A8(t, fsys, dir, Options{Threads: 2}, W8A8{Outliers: OutlierFraction(1)})
	requireNoAllocs(t, m)
	before := m.OutlierStats().Fetched
	requireNoAllocs(t, m)
	require.Greater(t, m.OutlierStats().Fetched, before)
}

// TestCalibrationOfAnotherModel refuses a calibration of another model, and an outlier path
// without columns.
func TestCalibrationOfAnotherModel(t *testing.T) {
	fsys := vfs.NewMem()
	calibrated(t, fsys, modeltest.Fixture(t, "llama3"), 0.25)
	c, err := w8a8.Open(fsys, "c")
	require.NoError(t, err)
	defer c.Close()
	for dir, says := range map[string]string{"qwen2": "belongs to another model", "llama2": "belongs to another model"} {
		f, err := modelfile.Open(vfs.OS(), modeltest.Fixture(t, dir))
		require.NoError(t, err)
		err = calib.UsePerRowInt8(t.Context(), f, c)
		require.ErrorIs(t, err, arch.ErrModel)
		require.ErrorContains(t, err, says)
		require.NoError(t, f.Close())
	}
	f, err := modelfile.Open(vfs.OS(), modeltest.Fixture(t, "llama3"))
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, calib.UsePerRowInt8(t.Context(), f, c))
	budget := tiering.New(0)
	_, err = Load(context.Background(), f, Options{Threads: 1, Budget: budget, W8A8: &W8A8{Calibration: c, Outliers: OutlierFraction(0.5)}})
	require.ErrorIs(t, err, arch.ErrUnsupported)
	require.ErrorContains(t, err, "has no columns of")
	require.Zero(t, budget.Usage().Total)
}

// TestUnreadableOutlierColumns: a column that cannot be read fails the pass; the next pass
// succeeds.
func TestUnreadableOutlierColumns(t *testing.T) {
	fsys := vfs.NewMem()
	calibrated(t, fsys, modeltest.Fixture(t, "llama3"), 1)
	hooked := &hookedFS{FS: fsys}
	m := loadW8A8(t, hooked, modeltest.Fixture(t, "llama3"), Options{Threads: 2}, W8A8{Outliers: OutlierFraction(1)})
	ids := someIDs(60)
	want := allLogits(t, m, ids)
	broken := &vfs.IOError{Op: "read", Path: "c", Err: context.DeadlineExceeded}
	hooked.before = func() error { return broken }
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	require.ErrorIs(t, m.Extend(context.Background(), s, ids, &ExtendOptions{}), broken)
	s.Close()
	hooked.before = nil
	require.Equal(t, want, allLogits(t, m, ids))

	ctx, cancel := context.WithCancel(context.Background())
	hooked.before = func() error { cancel(); return nil }
	s, err = m.NewSequence(0)
	require.NoError(t, err)
	defer s.Close()
	require.ErrorIs(t, m.Extend(ctx, s, ids, &ExtendOptions{}), context.Canceled)
}

// hookedFS calls a function before each read of its files.
type hookedFS struct {
	vfs.FS
	before func() error
}

func (h *hookedFS) Open(name string) (vfs.File, error) {
	f, err := h.FS.Open(name)
	return &hookedFile{f, h}, err
}

type hookedFile struct {
	vfs.File
	fs *hookedFS
}

func (h *hookedFile) ReadAt(p []byte, off int64) (int, error) {
	if h.fs.before != nil {
		if err := h.fs.before(); err != nil {
			return 0, err
		}
	}
	return h.File.ReadAt(p, off)
}

// TestHalvesOverlap makes the outlier path wait for a column until the other thread has computed
// a part of the integer half, and requires both in the trace at the same time. If one half
// waited for the other, the test would fail.
func TestHalvesOverlap(t *testing.T) {
	fsys := vfs.NewMem()
	calibrated(t, fsys, modeltest.Fixture(t, "llama3"), 1)
	hooked, recorder := &hookedFS{FS: fsys}, trace.New()
	m := loadW8A8(t, hooked, modeltest.Fixture(t, "llama3"), Options{Threads: 2}, W8A8{Outliers: OutlierFraction(1), Trace: recorder})
	parts := func() int {
		var out bytes.Buffer
		_, err := recorder.WriteTo(&out)
		assert.NoError(t, err)
		return strings.Count(out.String(), `"integers of `)
	}
	waited, patient := false, testutil.Patience()
	hooked.before = func() error {
		if !waited && patient() {
			before := parts() // the other thread may have computed all parts of this matmul already
			waited = testutil.HoldsWithin(20*time.Millisecond, func() bool { return parts() > before })
		}
		return nil
	}
	allLogits(t, m, someIDs(60))
	require.True(t, waited)

	events := traceEvents(t, recorder)
	for _, a := range events {
		for _, b := range events {
			if strings.HasPrefix(a.Name, "shadow of ") && strings.HasPrefix(b.Name, "integers of ") && a.Thread != b.Thread &&
				a.At < b.At+b.Took && b.At < a.At+a.Took {
				return
			}
		}
	}
	t.Error("no part of the integer half ran during the outlier path")
}
