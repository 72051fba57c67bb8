package exec

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/calib"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/internal/trace"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/store/w8a8"
	"github.com/llmrun/llmrun/tiering"
)

// TestSplitOutlierPathEqualsOneDevice computes a text in W8A8 with rows split over several
// devices. All devices quantize to the same codes, and the outlier path is added to the rows of
// each. A group of cores gives the same bits. Other devices add floats in another order, so a
// number halfway between two codes may become the other code: then the logits differ by the
// value of a code, otherwise by the last bits.
func TestSplitOutlierPathEqualsOneDevice(t *testing.T) {
	const lastBits, code = 1e-5, 0.1 // relative to the logits
	near, all := 0, 0
	for _, family := range []string{"llama3", "gemma3", "lfm2", "qwen2_moe"} {
		dir, fsys := modeltest.Fixture(t, family), vfs.NewMem()
		calibrated(t, fsys, dir, 1)
		o := Options{Threads: 2, Chunk: 8, KV: kv.F32}
		ids := someIDs(20)
		for _, choice := range []OutlierChoice{OutlierFraction(1), OutlierFraction(0)} {
			whole := loadW8A8(t, fsys, dir, o, W8A8{Outliers: choice})
			want := allLogits(t, whole, ids)
			require.Equal(t, choice.Fraction > 0, whole.OutlierStats().Outliers > 0)
			for _, p := range scaledPartners(t) {
				if family == "qwen2_moe" && p.name != "cores" {
					continue // one code may make a router choose another expert
				}
				for _, s := range testSplits[1:] {
					m := loadW8A8(t, fsys, dir, p.splitWith(t, s, o), W8A8{Outliers: choice})
					got := allLogits(t, m, ids)
					if p.name == "cores" {
						require.Equal(t, want, got, "%s, %+v", family, s)
						require.Equal(t, whole.OutlierStats(), m.OutlierStats())
						continue
					}
					for i := range want {
						off := distance(want[i], got[i])
						require.LessOrEqual(t, off, code, "%s, %+v, position %d", p.name, s, i)
						if all++; off < lastBits {
							near++
						}
					}
				}
			}
		}
	}
	require.GreaterOrEqual(t, near, all*3/4)
	t.Logf("of %d positions %d differ in the last bits only", all, near)
}

// scaledPartners returns the partners that accept a given scale.
func scaledPartners(t *testing.T) (list []partner) {
	for _, p := range partners(t) {
		d := p.open(t, tiering.New(0))
		if d.Capabilities().FixedScale {
			list = append(list, p)
		}
		require.NoError(t, d.Close())
	}
	return list
}

// TestSplitOutlierPathAllocatesNothing decodes with half of the rows on a device.
func TestSplitOutlierPathAllocatesNothing(t *testing.T) {
	dir, fsys := modeltest.Fixture(t, "llama3"), vfs.NewMem()
	calibrated(t, fsys, dir, 1)
	p := partners(t)[0]
	m := loadW8A8(t, fsys, dir, p.splitWith(t, split{single: 0.5, batch: 0.5}, Options{Threads: 2}), W8A8{Outliers: OutlierFraction(1)})
	requireNoAllocs(t, m)
	require.Positive(t, m.OutlierStats().Marked)
}

// TestAttachedMemoryHoldsTheOutlierPath compares AttachedBytes with the memory of a pass.
func TestAttachedMemoryHoldsTheOutlierPath(t *testing.T) {
	dir, fsys := modeltest.Fixture(t, "llama3"), vfs.NewMem()
	calibrated(t, fsys, dir, 1)
	p := partners(t)[0]
	m := loadW8A8(t, fsys, dir, p.splitWith(t, split{}, Options{Threads: 2, Chunk: 64}), W8A8{Outliers: OutlierFraction(1)})
	f, err := modelfile.Open(vfs.OS(), dir)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, calib.UsePerRowInt8(t.Context(), f, m.outliers.file))
	bytes, err := AttachedBytes(f, ShapeOptions{Threads: 2, W8A8: &W8A8{}}, 64)
	require.NoError(t, err)
	require.LessOrEqual(t, bytes, int64(len(m.pass.frame.Bytes())))
	require.Greater(t, bytes+pageSlack, int64(len(m.pass.frame.Bytes())))
}

// TestOutlierPathNeedsAScaledDevice: a device with scales of its own is refused.
func TestOutlierPathNeedsAScaledDevice(t *testing.T) {
	dir, fsys := modeltest.Fixture(t, "llama3"), vfs.NewMem()
	calibrated(t, fsys, dir, 1)
	c, err := w8a8.Open(fsys, "c")
	require.NoError(t, err)
	defer c.Close()
	f, err := modelfile.Open(vfs.OS(), dir)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, calib.UsePerRowInt8(t.Context(), f, c))
	p := partners(t)[1]
	require.Equal(t, "simulated GPU", p.name)
	o := p.splitWith(t, split{}, Options{Threads: 1, W8A8: &W8A8{Calibration: c}})
	closed := false
	o.Split.Device = refusing{Device: o.Split.Device, closed: &closed}
	_, err = Load(context.Background(), f, o)
	require.ErrorIs(t, err, arch.ErrUnsupported)
	require.ErrorContains(t, err, "simulated GPU quantizes with its own scales")
	require.True(t, closed)
}

// lateDevice is a device whose work completes only after done returns true.
type lateDevice struct {
	hetero.Device
	done func() bool
}

type lateKernel struct {
	hetero.Elastic
	done func() bool
}

type lateTicket struct {
	hetero.Ticket
	done func() bool
}

func (l lateDevice) Prepare(op hetero.Op) (hetero.Kernel, error) {
	k, err := l.Device.Prepare(op)
	if err != nil {
		return nil, err
	}
	return lateKernel{k.(hetero.Elastic), l.done}, nil
}

func (k lateKernel) SubmitSome(tokens int, x, y hetero.View) (hetero.Ticket, error) {
	t, err := k.Elastic.SubmitSome(tokens, x, y)
	return lateTicket{t, k.done}, err
}

func (t lateTicket) Done() bool { return t.done() && t.Ticket.Done() }

// TestSplitOutlierPathOverlaps delays the device's completion until the trace has an outlier
// path, and requires both in the trace at the same time. An outlier path that waited for the
// device would fail the test.
func TestSplitOutlierPathOverlaps(t *testing.T) {
	dir, fsys := modeltest.Fixture(t, "llama3"), vfs.NewMem()
	calibrated(t, fsys, dir, 1)
	recorder, p := trace.New(), partners(t)[0]
	o := p.splitWith(t, split{}, Options{Threads: 2, Chunk: 8})
	var out bytes.Buffer
	seen, patient := false, testutil.Patience()
	o.Split.Trace, o.Split.Device = recorder, lateDevice{o.Split.Device, func() bool {
		if !seen && patient() {
			out.Reset()
			_, err := recorder.WriteTo(&out)
			require.NoError(t, err)
			seen = strings.Contains(out.String(), `"shadow of blk.0.attn_q.weight`)
			return seen
		}
		return true
	}}
	m := loadW8A8(t, fsys, dir, o, W8A8{Outliers: OutlierFraction(1), Trace: recorder})
	allLogits(t, m, someIDs(8))
	require.True(t, seen)

	events := traceEvents(t, recorder)
	for _, there := range events {
		for _, outliers := range events {
			if there.Name == "attn_q" && outliers.Name == "shadow of blk.0.attn_q.weight" &&
				there.At <= outliers.At && outliers.At+outliers.Took <= there.At+there.Took {
				return
			}
		}
	}
	t.Error("no outlier path ran while the device was busy")
}
