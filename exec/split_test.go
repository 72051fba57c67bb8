package exec

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/cpu"
	"github.com/llmrun/llmrun/hetero/devices"
	"github.com/llmrun/llmrun/hetero/opencl"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/internal/trace"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/lab/sim"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// partner is a device that takes rows of matmuls, and the largest difference of logits that it
// may cause, relative to their standard deviation.
type partner struct {
	name      string
	open      func(t *testing.T, budget *tiering.Budget) hetero.Device
	exact     float64 // with float weights
	quantized float64 // if the CPU quantizes activations and the device does not, or differently
}

// partners returns a group of cores, devices of a simulated phone (one that shares memory, one
// that copies, one with static graphs), and the devices that this machine and build have.
func partners(t *testing.T) []partner {
	simulated := func(apart bool, pick func(*sim.SoC) *sim.Device) func(*testing.T, *tiering.Budget) hetero.Device {
		return func(t *testing.T, _ *tiering.Budget) hetero.Device {
			soc, err := sim.New("8-gen-3", sim.Options{SeparateMemory: apart})
			require.NoError(t, err)
			return pick(soc)
		}
	}
	gpu := func(s *sim.SoC) *sim.Device { return s.GPU }
	list := []partner{
		{"cores", func(t *testing.T, budget *tiering.Budget) hetero.Device {
			d, err := cpu.New(cpu.Options{Threads: 1, Budget: budget})
			require.NoError(t, err)
			return d
		}, 1e-3, 1e-3},
		{"simulated GPU", simulated(false, gpu), 1e-3, 0.2},
		{"simulated GPU that copies", simulated(true, gpu), 1e-3, 0.2},
		{"simulated NPU", simulated(false, func(s *sim.SoC) *sim.Device { return s.NPU }), 0.1, 0.3},
	}
	for kind, allowed := range map[hetero.Kind][2]float64{
		hetero.GPU: {2e-3, 0.2},
		hetero.NPU: {0.6, 0.6}, // the NPU quantizes all weights to 8 bits
	} {
		name, err := devices.All.First(kind)
		if err != nil {
			t.Logf("left out: %v", err)
			continue
		}
		list = append(list, partner{name, func(t *testing.T, budget *tiering.Budget) hetero.Device {
			t.Setenv(opencl.ArithmeticVariable, opencl.Floats.String()) // tensor units round to fewer bits
			d, err := devices.All.Open(name, devices.Options{Budget: budget})
			require.NoError(t, err)
			return d
		}, allowed[0], allowed[1]})
	}
	return list
}

// split gives the same fraction of every matmul to a device.
type split struct {
	single, batch float64 // fraction of the rows on the CPU
	least         int
}

func (s split) of(static bool) func(weights.Matmul) weights.RowSplit {
	return func(p weights.Matmul) weights.RowSplit {
		first := func(part float64) int { return int(math.Ceil(part * float64(p.Rows))) }
		rows := weights.RowSplit{Single: first(s.single), Batch: first(s.batch), MinBatch: s.least, SingleTime: time.Microsecond, BatchTime: time.Microsecond}
		if static {
			if rows.Single = p.Rows; p.LastTokenOnly {
				rows.Batch = p.Rows
			}
		}
		return rows
	}
}

// splitWith returns the options of a split model.
func (p *partner) splitWith(t *testing.T, s split, o Options) Options {
	o.Budget = tiering.New(0)
	device := p.open(t, o.Budget)
	o.Split = &Split{Name: p.name, Device: device, RowsOf: s.of(device.Capabilities().Static), Grain: time.Millisecond}
	return o
}

var testSplits = []split{
	{1, 1, 0},
	{0, 0, 0},
	{0.4, 0.4, 0},
	{0.2, 0.7, 4}, // more rows for one token; some rows are in both memories
	{1, 0.3, 3},
}

// splitModels returns a llama-like family, one with biases, experts and a shared expert, the
// same with all experts used, one with more norms and another activation, one with convolutions,
// and a random model with quantized weights.
func splitModels(t *testing.T) (list map[string]func(Options) *Model) {
	quantized := synthFS(t, "tiny", "q4_0", 512)
	list = map[string]func(Options) *Model{
		"tiny q4_0": func(o Options) *Model { return loadModel(t, quantized, "m.gguf", o) },
	}
	for _, name := range []string{"llama3", "qwen2_moe", "gemma3", "lfm2"} {
		dir := testutil.Shared(t, "fixtures", name)
		list[name] = func(o Options) *Model { return loadModel(t, vfs.OS(), dir, o) }
	}
	all := allExperts(t)
	list["qwen2_moe, all experts"] = func(o Options) *Model { return loadModel(t, all, ".", o) }
	return list
}

// allExperts returns the family with experts, changed to use all of them. Its router only weighs
// experts, so a device's rounding has no greater effect than in other families.
func allExperts(t *testing.T) vfs.FS {
	files := fstest.MapFS{}
	for _, name := range []string{"config.json", "model.safetensors"} {
		data, err := os.ReadFile(testutil.Shared(t, "fixtures", "qwen2_moe", name))
		require.NoError(t, err)
		files[name] = &fstest.MapFile{Data: data}
	}
	config, some := files["config.json"], []byte(`"num_experts_per_tok": 2`)
	require.Contains(t, string(config.Data), string(some))
	require.Contains(t, string(config.Data), `"num_experts": 8`)
	config.Data = bytes.Replace(config.Data, some, []byte(`"num_experts_per_tok": 8`), 1)
	return vfs.FromIOFS(files)
}

// routerTolerance is the tolerance above which routers may choose other experts, whose results are
// unrelated.
const routerTolerance = 0.5

// TestSplitPassEqualsOneDevice computes a text in chunks and token by token, with every device
// and every split.
func TestSplitPassEqualsOneDevice(t *testing.T) {
	all := partners(t)
	decided := map[string]int{} // by device: positions with one clearly best token
	for name, load := range splitModels(t) {
		o := Options{Threads: 2, Chunk: 8, KV: kv.F32}
		whole := load(o)
		ids := longPrompt(whole.Spec.Vocab, 19, 3)
		want := allLogits(t, whole, ids)
		for _, p := range all {
			tolerance := p.exact
			if name == "tiny q4_0" {
				tolerance = p.quantized
			}
			if name == "qwen2_moe" && tolerance > routerTolerance {
				t.Logf("%s is not compared on %s: its quantization makes routers choose other experts", name, p.name)
				continue
			}
			for i, s := range testSplits {
				t.Run(fmt.Sprintf("%s/%s/%d", name, p.name, i), func(t *testing.T) {
					m := load(p.splitWith(t, s, o))
					first, err := m.NewSequence(0)
					require.NoError(t, err)
					got := extendAll(t, m, first, ids[:13])
					second, err := first.Fork()
					require.NoError(t, err)
					for _, seq := range []*Sequence{first, second} { // alternating, token by token
						rest := slices.Clone(got)
						for _, id := range ids[13:] {
							rest = append(rest, extendAll(t, m, seq, []int32{id})...)
						}
						decided[p.name] += requireClose(t, want, rest, tolerance)
						seq.Close()
					}
				})
			}
		}
	}
	for _, p := range all {
		require.Positive(t, decided[p.name], p.name)
	}
}

// requireClose compares logits, and the greedy choice at each position where the two most likely
// tokens differ by more than the tolerance. It returns the number of these positions.
func requireClose(t *testing.T, want, got [][]float32, tolerance float64) (decided int) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		mean, square := 0.0, 0.0
		for _, v := range want[i] {
			mean += float64(v) / float64(len(want[i]))
			square += float64(v) * float64(v) / float64(len(want[i]))
		}
		allowed := tolerance * math.Sqrt(square-mean*mean)
		testutil.RequireNear(t, want[i], got[i], allowed, "position %d", i)
		best := argmax(want[i])
		second := float32(math.Inf(-1))
		for j, v := range want[i] {
			if int32(j) != best {
				second = max(second, v)
			}
		}
		if float64(want[i][best]-second) > 2*allowed {
			decided++
			require.Equal(t, best, argmax(got[i]), "position %d", i)
		}
	}
	return decided
}

// TestSplitWeightsAreHeldOnce gives a device all, half or none of a model's rows.
func TestSplitWeightsAreHeldOnce(t *testing.T) {
	p := partners(t)[0]
	pinned := func(s split) int64 {
		m := loadModel(t, synthFS(t, "tiny", "q4_0", 2048), "m.gguf", p.splitWith(t, s, Options{Threads: 1, Chunk: 4}))
		return m.Budget().Usage().By[tiering.Pinned]
	}
	none := pinned(split{single: 1, batch: 1})
	for _, s := range []split{{}, {single: 0.5, batch: 0.5}} {
		require.InEpsilon(t, none, pinned(s), 0.1, "%+v", s)
	}
	require.Greater(t, pinned(split{single: 1, batch: 0}), none*5/4, "rows for one case only are in both memories")
}

// TestSplitDecodeAllocatesNothing decodes token by token and checks the recorded statistics.
func TestSplitDecodeAllocatesNothing(t *testing.T) {
	p := partners(t)[0]
	m := loadModel(t, synthFS(t, "tiny", "q4_0", 512), "m.gguf", p.splitWith(t, split{single: 0.5, batch: 0.5}, Options{Threads: 2, Chunk: 8, KV: kv.K8V8}))
	requireNoAllocs(t, m)
	for _, d := range m.SplitStats() {
		require.Positive(t, d.Split.Single, d.Name)
		if d.Name == "attn_q" || d.Name == "output" {
			require.Positive(t, d.Single.Steps, d.Name)
			require.Positive(t, d.Single.Took, d.Name)
		}
	}
}

// TestPredictionsScaleWithTokens computes texts of different lengths; the shortest has no
// prediction. Static devices take the time of a whole chunk for each of the others.
func TestPredictionsScaleWithTokens(t *testing.T) {
	all := partners(t)
	cores, npu := all[0], all[3]
	require.Equal(t, "simulated NPU", npu.name)
	for _, c := range []struct {
		p     partner
		batch float64 // fraction of the rows on the CPU
		whole bool    // every chunk takes the time of a whole one
	}{{cores, 0.5, false}, {npu, 0.5, true}, {npu, 1, false}} {
		p := c.p
		o := p.splitWith(t, split{single: 1, batch: c.batch, least: 4}, Options{Threads: 1, Chunk: 8, KV: kv.K8V8})
		m := loadModel(t, synthFS(t, "tiny", "q4_0", 512), "m.gguf", o)
		for _, tokens := range []int{3, 5, 8} {
			s, err := m.NewSequence(0)
			require.NoError(t, err)
			require.NoError(t, m.Extend(t.Context(), s, make([]int32, tokens), &ExtendOptions{}))
			s.Close()
		}
		q := m.SplitStats()[0]
		require.Equal(t, "attn_q", q.Name)
		require.Zero(t, q.Single.Steps, p.name)
		require.Equal(t, 13*q.Batch.Steps/2, q.Batch.Tokens, "5 and 8 tokens in each layer")
		three := 3 * time.Microsecond // queries, keys and values
		if c.whole {
			require.Equal(t, three*time.Duration(q.Batch.Steps), q.Batch.Predicted, p.name)
		} else {
			require.Equal(t, three*time.Duration(q.Batch.Tokens)/8, q.Batch.Predicted, p.name)
		}
	}
}

// refusing is a device that refuses weights, or fails after it took some.
type refusing struct {
	hetero.Device
	prepare, attach, flush error
	closed                 *bool
}

func (r refusing) Prepare(op hetero.Op) (hetero.Kernel, error) {
	if r.prepare != nil {
		return nil, r.prepare
	}
	return r.Device.Prepare(op)
}

func (r refusing) Attach(b *hetero.Buffer) error {
	return errors.Join(r.attach, r.Device.Attach(b))
}

func (r refusing) FlushRows(hetero.View, int, int) error { return r.flush }

func (r refusing) Close() error {
	*r.closed = true
	return r.Device.Close()
}

// TestFailingDevices: errors name the device and the matrix, all memory is freed, and the
// sequence is unchanged.
func TestFailingDevices(t *testing.T) {
	broken := errors.New("the driver has gone")
	for _, c := range []struct {
		device refusing
		text   string
	}{
		{refusing{prepare: broken}, "ends of m.gguf: output: cores: the driver has gone"},
		{refusing{attach: broken}, "cores: the driver has gone"},
		{refusing{flush: broken}, ""},
	} {
		p := partners(t)[0]
		o := p.splitWith(t, split{}, Options{Threads: 1, Chunk: 4})
		closed := false
		c.device.Device, c.device.closed = o.Split.Device, &closed
		o.Split.Device = c.device
		f, err := modelfile.Open(synthFS(t, "tiny", "q4_0", 512), "m.gguf")
		require.NoError(t, err)
		m, err := Load(context.Background(), f, o)
		require.NoError(t, f.Close())
		if c.text == "" {
			require.NoError(t, err)
			s, opened := m.NewSequence(0)
			require.NoError(t, opened)
			err = m.Extend(context.Background(), s, []int32{1, 2}, &ExtendOptions{})
			require.Zero(t, s.Len())
			s.Close()
			m.Close()
		}
		require.ErrorIs(t, err, broken)
		require.ErrorContains(t, err, c.text)
		require.True(t, closed)
		require.NoError(t, o.Budget.Check())
	}
}

// TestSplitStepsAreTraced: the host's submission, own rows and wait follow each other, and the
// device's work is inside of them, for devices that measure their work and for others. The trace has the clock of a
// simulated device. The clock of another device runs on between two readings, so its work is only in order.
func TestSplitStepsAreTraced(t *testing.T) {
	for _, p := range partners(t) {
		o := p.splitWith(t, split{single: 0.5, batch: 0.5}, Options{Threads: 1, Chunk: 8})
		_, simulated := o.Split.Device.(*sim.Device)
		if o.Split.Trace = trace.New(); simulated {
			o.Split.Trace = trace.NewAt(o.Split.Device.Clock().Now)
		}
		m := loadModel(t, synthFS(t, "tiny", "q4_0", 512), "m.gguf", o)
		allLogits(t, m, make([]int32, 8))
		events := traceEvents(t, o.Split.Trace)
		type interval struct{ begin, end float64 }
		var steps, there []interval
		names := map[string]int{}
		for _, e := range events {
			if e.Phase != "X" {
				continue
			}
			names[e.Name]++
			at := interval{e.At, e.At + e.Took}
			switch {
			case strings.HasPrefix(e.Name, "submit "):
				steps = append(steps, at)
			case strings.HasPrefix(e.Name, "host rows of "), strings.HasPrefix(e.Name, "wait for "):
				last := &steps[len(steps)-1]
				require.InDelta(t, last.end, at.begin, 0.002, "spans of the host follow each other")
				last.end = at.end
			default:
				there = append(there, at)
			}
		}
		require.GreaterOrEqual(t, len(steps), 2*4, "queries, output, gate and down of two layers on %s", p.name)
		require.GreaterOrEqual(t, len(there), 2*7, p.name)
		require.Equal(t, 2, names["wait for ffn_gate"], "%v", names)
		require.Equal(t, 2, names["ffn_up"], "%v", names)
		for _, d := range there {
			require.LessOrEqual(t, d.begin, d.end, p.name)
			within := !simulated
			for _, step := range steps {
				within = within || step.begin-0.002 <= d.begin && d.end <= step.end+0.002
			}
			require.True(t, within, "%s: %v of %v", p.name, d, steps)
		}
	}
}

// traceEvent is an event with a duration in a trace.
type traceEvent struct {
	Name   string  `json:"name"`
	Phase  string  `json:"ph"`
	Thread int     `json:"tid"`
	At     float64 `json:"ts"`
	Took   float64 `json:"dur"`
}

// traceEvents returns the events recorded so far, parsed from the written trace.
func traceEvents(t *testing.T, recorder *trace.Recorder) []traceEvent {
	t.Helper()
	var out bytes.Buffer
	_, err := recorder.WriteTo(&out)
	require.NoError(t, err)
	var file struct {
		Events []traceEvent `json:"traceEvents"`
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &file))
	return file.Events
}
