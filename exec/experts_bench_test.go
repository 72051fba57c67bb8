package exec

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// The tokens of a replay: the warm-up, in which a policy fills the cache, and the measured ones.
const (
	warmTokens     = 48
	measuredTokens = 48
)

// BenchmarkExpertsOnFlash decodes with the pack in LLMRUN_EXPERTS_PACK, within
// LLMRUN_EXPERTS_RAM bytes. The routers follow a synthetic trace, because routers with random
// weights choose the same experts for all tokens.
//
// Each of b.N rounds replays the trace with every policy, each time starting with another one,
// in the same model, so that other load on the machine and the model's place in memory affect
// all policies alike. Only speeds of the same round are compared.
func BenchmarkExpertsOnFlash(b *testing.B) {
	path := os.Getenv("LLMRUN_EXPERTS_PACK")
	ram, err := tiering.ParseSize(os.Getenv("LLMRUN_EXPERTS_RAM"), 0)
	if path == "" || err != nil {
		b.Skip("LLMRUN_EXPERTS_PACK or LLMRUN_EXPERTS_RAM is not set")
	}
	f, err := modelfile.Open(vfs.OS(), path)
	require.NoError(b, err)
	defer f.Close()
	shape, _, err := MeasureShape(f, ShapeOptions{Threads: 2, KV: kv.K8V8})
	require.NoError(b, err)
	plan, err := tiering.MakePlan(shape, tiering.Need{Budget: ram, Context: 512, Chunk: 64, Code: 16 << 20, Heap: 32 << 20}, tiering.Rates{})
	require.NoError(b, err)
	m, err := Load(context.Background(), f, Options{Threads: 2, KV: kv.K8V8, Plan: plan})
	require.NoError(b, err)
	defer m.Close()
	if m.experts == nil {
		b.Skip("the model has no experts")
	}
	for _, r := range testutil.Routings[1:] {
		b.Run(fmt.Sprintf("skew=%v/stay=%v/subject=%v", r.Skew, r.Stay, r.Subject), func(b *testing.B) {
			r.Layers, r.Experts, r.Used = len(m.Spec.Layers), m.Spec.Experts, m.Spec.ExpertsUsed
			comparePolicies(b, m, r.Choose(warmTokens+measuredTokens, 1))
		})
	}
}

// comparePolicies replays a trace with the policies in turns. It reports the figures of each
// policy and compares the first two.
func comparePolicies(b *testing.B, m *Model, trace [][][]int) {
	modes := []struct {
		name   string
		policy weights.ExpertPolicy
		trust  float64
	}{
		{"frequent", weights.EvictLeastFrequent, 0},
		{"recent", weights.EvictLeastRecent, 0},
		{"frequent-late", weights.EvictLeastFrequent, -math.MaxFloat64}, // reads no guessed experts
	}
	replays := make([][]replayed, len(modes))
	for round := range b.N {
		for i := range modes {
			at := (round + i) % len(modes)
			m.experts.Policy = modes[at].policy.Policy(len(m.Spec.Layers), m.Spec.Experts)
			m.experts.Trust = modes[at].trust
			replays[at] = append(replays[at], decodeTrace(b, m, trace))
		}
	}
	var ratios []float64
	for round := range b.N {
		ratios = append(ratios, replays[0][round].speed()/replays[1][round].speed())
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "frequent/recent")
	b.ReportMetric(ratios[0], "frequent/recent-least")
	b.ReportMetric(ratios[len(ratios)-1], "frequent/recent-most")
	for i, mode := range modes {
		slices.SortFunc(replays[i], func(x, y replayed) int { return int(x.took - y.took) })
		replays[i][len(replays[i])/2].report(b, mode.name)
	}
}

// replayed is the measured cost of decoding a trace.
type replayed struct {
	took          time.Duration
	before, after weights.ExpertStats
}

func (r *replayed) speed() float64 { return measuredTokens / r.took.Seconds() }

func (r *replayed) report(b *testing.B, name string) {
	used := float64(r.after.Used - r.before.Used)
	b.ReportMetric(r.speed(), name+"-tok/s")
	b.ReportMetric(100*float64(r.after.Hits-r.before.Hits)/used, name+"-%hits")
	b.ReportMetric(100*float64(r.after.Early-r.before.Early)/used, name+"-%early")
	b.ReportMetric(float64(r.after.Bytes-r.before.Bytes)/1e6/measuredTokens, name+"-MB/tok")
	b.ReportMetric(100*(r.after.Stalled-r.before.Stalled).Seconds()/r.took.Seconds(), name+"-%stalled")
	b.ReportMetric(float64(r.after.Slots), "slots")
}

// decodeTrace decodes tokens with the experts of a trace and measures those after the warm-up.
func decodeTrace(b *testing.B, m *Model, trace [][][]int) (r replayed) {
	s, err := m.NewSequence(0)
	require.NoError(b, err)
	defer s.Close()
	var began time.Time
	for t, token := range trace {
		if t == warmTokens {
			r.before, began = m.ExpertStats(), time.Now()
		}
		for l, chosen := range token {
			bias := make([]float32, m.Spec.Experts)
			for _, e := range chosen {
				bias[e] = 1e6
			}
			m.weights.Layers[l].Router.Bias = bias
		}
		require.NoError(b, m.Extend(context.Background(), s, []int32{int32(t)}, &ExtendOptions{}))
	}
	r.took, r.after = time.Since(began), m.ExpertStats()
	return r
}
