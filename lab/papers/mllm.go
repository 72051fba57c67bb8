package papers

import (
	"time"

	"github.com/llmrun/llmrun/lab/schedule"
	"github.com/llmrun/llmrun/lab/sim"
)

// Numbers of mllm-NPU. MllmConstants gives their sources.
const (
	mllmChunk = 256
	// npuChunk and floatChunk are the seconds of the NPU and of all other processors for 256 tokens
	// of Qwen1.5-1.8B.
	npuChunk, floatChunk = 315e-3, 315e-3 / 2
	// perGroup is the slowdown of per-group quantized matmuls on the NPU.
	perGroup = (8.1 + 10.7) / 2
	// gemmaBuild is the seconds for building and optimizing a graph of Gemma-2B.
	gemmaBuild = 0.36 + 11.54
	// outlierSync is the relative cost of synchronizing outliers, which 15 % of the layers pay.
	outlierSync = 0.297 * (1 - 0.85)
	// attentionRate is the arithmetic rate of attention on the CPU, as in the simulator.
	attentionRate = 0.4e12
	// prefillFraction is the fraction of prefill in the time of a task.
	prefillFraction = (0.944 + 0.988) / 2
)

// Seconds of a task of 600 tokens, the published length nearest to the ablation's 512.
var (
	llamaCpp = map[string]float64{Qwen18.Name: 8.1, Gemma2B.Name: 12.3, Llama7B.Name: 43.9}
	mllmTask = map[string]float64{Qwen18.Name: 1.1, Gemma2B.Name: 0.9, Llama7B.Name: 3.6}
)

// npuTime returns the NPU time of a model's matmuls relative to Qwen1.5-1.8B. It is taken from the
// time of a whole task, in which the NPU is always busy (§3.4), and not from the number of
// weights: Gemma-2B has 1.6 times as many and is not slower.
func npuTime(m Model) float64 { return mllmTask[m.Name] / mllmTask[Qwen18.Name] }

// MllmConstants lists the constants of the figures of mllm-NPU.
func MllmConstants() []sim.Constant {
	return []sim.Constant{
		{Name: "NPU, 256 tokens of Qwen1.5-1.8B", Value: npuChunk, Unit: "s", Source: "§3.4"},
		{Name: "the same, Gemma-2B", Value: npuTime(Gemma2B), Unit: "times", Source: "Table 4: a task of 600 tokens took 0.9 s, for 1.1 s with Qwen1.5-1.8B"},
		{Name: "the same, Llama-7B", Value: npuTime(Llama7B), Unit: "times", Source: "Table 4, likewise: 3.6 s"},
		{Name: "CPU, the same", Value: floatChunk, Unit: "s", Source: "§3.4: the NPU's is about twice it; attention by arithmetic, the rest by the model's width"},
		{Name: "attention on the CPU", Value: attentionRate, Unit: "flop/s", Source: "as the simulated CPU"},
		{Name: "per-group matmuls", Value: perGroup, Unit: "times", Source: "§2.3: 8.1 to 10.7"},
		{Name: "building graphs of Gemma-2B", Value: gemmaBuild, Unit: "s", Source: "§2.3; other models by their weights"},
		{Name: "synchronizing outliers", Value: outlierSync, Unit: "of all", Source: "§3.3: 29.7 %, in the 15 % of the layers that are not pruned"},
		{Name: "prefill, of a task", Value: prefillFraction, Unit: "", Source: "§2.1: 94.4 to 98.8 %"},
		{Name: "llama.cpp, 600 tokens, Qwen1.5-1.8B", Value: llamaCpp[Qwen18.Name], Unit: "s", Source: "Table 4"},
		{Name: "llama.cpp, 600 tokens, Gemma-2B", Value: llamaCpp[Gemma2B.Name], Unit: "s", Source: "Table 4"},
		{Name: "llama.cpp, 600 tokens, Llama-7B", Value: llamaCpp[Llama7B.Name], Unit: "s", Source: "Table 4"},
	}
}

// mllmStages returns the subgraphs of a model: six per layer, 144 for Qwen1.5-1.8B. NPU times are
// proportional to weights and multiplied by slow; times of norms are proportional to the width of
// the model, those of attention to its arithmetic.
func mllmStages(m Model, slow float64) (stages []schedule.Stage) {
	perWeight := npuChunk * npuTime(m) / m.Weights() * slow
	attention := func(m *Model, chunk int) float64 {
		return 4 * mllmChunk * (float64(chunk) + 0.5) * mllmChunk * float64(m.Heads*m.HeadAt) / attentionRate
	}
	rest := floatChunk/float64(Qwen18.Layers) - attention(&Qwen18, 0)
	norm := rest / 2 * float64(m.Dim) / float64(Qwen18.Dim)
	fixed := func(s float64) func(int) time.Duration {
		return func(int) time.Duration { return time.Duration(s * 1e9) }
	}
	weights := map[string]float64{}
	for _, p := range m.Matmuls() {
		weights[p.Name] = float64(p.Rows) * float64(p.Cols) * perWeight
	}
	for range m.Layers {
		stages = append(stages,
			schedule.Stage{Name: "norm", Time: fixed(norm)},
			schedule.Stage{Name: "qkv", NPU: true, Time: fixed(weights["q"] + weights["k"] + weights["v"])},
			schedule.Stage{Name: "attention", Mixes: true, Time: func(chunk int) time.Duration { return time.Duration(attention(&m, chunk) * 1e9) }},
			schedule.Stage{Name: "o", NPU: true, Time: fixed(weights["o"])},
			schedule.Stage{Name: "norm", Time: fixed(norm)},
			schedule.Stage{Name: "ffn", NPU: true, Time: fixed(weights["gate"] + weights["up"] + weights["down"])},
		)
	}
	return stages
}

// Ablation holds prefill times of 512 tokens, in seconds, as techniques are added one by one:
// mllm-NPU's figure 17.
type Ablation struct {
	Model string
	// CPU is the published time of llama.cpp. The others are simulated: per-group matmuls and graphs
	// built for the prompt; graphs of chunks; per-tensor matmuls with an outlier path; and
	// subgraphs out of order.
	CPU, Naive, Chunks, Outliers, OutOfOrder float64
	Bubbles                                  float64 // idle fraction of the NPU, before the last technique
}

// Ablate computes the ablation for a model.
func Ablate(m Model) Ablation {
	chunks := 512 / mllmChunk
	total := func(slow float64, order schedule.Order) ([]schedule.Stage, []schedule.Slot) {
		stages := mllmStages(m, slow)
		return stages, schedule.Run(stages, chunks, order)
	}
	a := Ablation{Model: m.Name, CPU: llamaCpp[m.Name] * 512 / 600 * prefillFraction}
	_, slots := total(perGroup, schedule.InOrder)
	a.Chunks = schedule.Length(slots).Seconds()
	a.Naive = a.Chunks + gemmaBuild*m.Weights()/Gemma2B.Weights()
	stages, slots := total(1, schedule.InOrder)
	a.Outliers = schedule.Length(slots).Seconds() * (1 + outlierSync)
	a.Bubbles = schedule.Bubbles(stages, slots)
	_, slots = total(1, schedule.OutOfOrder)
	a.OutOfOrder = schedule.Length(slots).Seconds() * (1 + outlierSync)
	return a
}

// MllmNPU compares the simulation with mllm-NPU.
func MllmNPU() []Table {
	var tables []Table
	for _, m := range []Model{Qwen18, Gemma2B, Llama7B} {
		a := Ablate(m)
		tables = append(tables, Table{"mllm-NPU: ablation at 512 tokens, " + m.Name, []Figure{
			{What: "naive use of the NPU over llama.cpp, latency", Source: "§4.6", Low: 2.55, High: 2.68, Ours: a.Naive / a.CPU},
			{What: "chunks over naive", Source: "§4.6", Low: 1.46, High: 5.09, Ours: a.Naive / a.Chunks},
			{What: "outlier path over chunks", Source: "§4.6", Low: 3.91, High: 8.68, Ours: a.Chunks / a.Outliers},
			{What: "out of order, less latency", Source: "§4.6", Low: 18, High: 44, Ours: 100 * (1 - a.OutOfOrder/a.Outliers), Unit: "%"},
		}})
	}
	// The graphs are those of a prompt of 1024 tokens.
	graphs := MllmGraphs(Qwen18)
	apart := schedule.CountGraphs(graphs, Qwen18.Layers, 4, mllmChunk, false)
	shared := schedule.CountGraphs(graphs, Qwen18.Layers, 4, mllmChunk, true)
	return append(tables, Table{"mllm-NPU: Qwen1.5-1.8B", []Figure{
		{What: "bubbles of the NPU, in order", Source: "§3.4", Paper: 37, Ours: 100 * Ablate(Qwen18).Bubbles, Unit: "%"},
		{What: "graphs that chunks share, of 144", Source: "§3.2", Paper: 120, Ours: float64(shared.Shared), Unit: "graphs"},
		{What: "memory saved by sharing, 1024 tokens", Source: "§3.2", Paper: 75, Ours: 100 * (1 - float64(shared.Bytes)/float64(apart.Bytes)), Unit: "%"},
		{What: "the same in bytes", Source: "§3.2", Paper: 7.2, Ours: float64(apart.Bytes-shared.Bytes) / 1e9, Unit: "GB"},
	}})
}

// MllmGraphs returns the graphs of a layer in 8 bits, with a buffer for each input and output, as
// mllm-NPU allocates them (§4.5).
func MllmGraphs(m Model) []schedule.Graph {
	buffers := func(widths ...int) func(int) int64 {
		sum := int64(0)
		for _, w := range widths {
			sum += int64(w) * mllmChunk * 4
		}
		return func(int) int64 { return sum }
	}
	weights := map[string]int64{}
	for _, p := range m.Matmuls() {
		weights[p.Name] = int64(p.Rows) * int64(p.Cols)
	}
	q, kv := m.Heads*m.HeadAt, m.KVHeads*m.HeadAt
	attention := func(before int) int64 {
		scores := int64(m.Heads) * mllmChunk * int64(before+mllmChunk)
		return 4 * (scores + mllmChunk*int64(2*q) + int64(before+mllmChunk)*int64(2*kv))
	}
	qkv := weights["q"] + weights["k"] + weights["v"]
	ffn := weights["gate"] + weights["up"] + weights["down"]
	return []schedule.Graph{
		{Name: "norm", Buffers: buffers(m.Dim, m.Dim)},
		{Name: "qkv", Weights: qkv, Buffers: buffers(m.Dim, q, kv, kv), Work: float64(qkv)},
		{Name: "attention", Buffers: attention, PerChunk: true},
		{Name: "o", Weights: weights["o"], Buffers: buffers(q, m.Dim), Work: float64(weights["o"])},
		{Name: "norm", Buffers: buffers(m.Dim, m.Dim)},
		{Name: "ffn", Weights: ffn, Buffers: buffers(m.Dim, m.Hidden, m.Hidden, m.Hidden, m.Dim), Work: float64(ffn)},
	}
}
