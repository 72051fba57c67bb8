package papers

import "github.com/llmrun/llmrun/hetero"

// Model is the shape of a model.
type Model struct {
	Name                   string
	Layers, Dim, Hidden    int
	Heads, KVHeads, HeadAt int // HeadAt is the size of a head
	Vocab                  int
}

// Models of HeteroLLM and mllm-NPU.
var (
	Llama8B   = Model{"Llama-8B", 32, 4096, 14336, 32, 8, 128, 128256}
	Llama7B   = Model{"Llama-7B", 32, 4096, 11008, 32, 32, 128, 32000}
	Llama3B   = Model{"Llama-3B", 28, 3072, 8192, 24, 8, 128, 128256}
	InternLM2 = Model{"InternLM-1.8B", 24, 2048, 8192, 16, 8, 128, 92544}
	Qwen18    = Model{"Qwen1.5-1.8B", 24, 2048, 5504, 16, 16, 128, 151936}
	Gemma2B   = Model{"Gemma-2B", 18, 2048, 16384, 8, 1, 256, 256000}
)

// Matmul is one matrix of a layer.
type Matmul struct {
	Name       string
	Rows, Cols int
}

// Matmuls returns the matrices of a layer, in the order of their use.
func (m *Model) Matmuls() []Matmul {
	q, kv := m.Heads*m.HeadAt, m.KVHeads*m.HeadAt
	return []Matmul{
		{"q", q, m.Dim},
		{"k", kv, m.Dim},
		{"v", kv, m.Dim},
		{"o", m.Dim, q},
		{"gate", m.Hidden, m.Dim},
		{"up", m.Hidden, m.Dim},
		{"down", m.Dim, m.Hidden},
	}
}

// Op returns the operation for a number of tokens, with streamed weights.
func (p Matmul) Op(tokens int) hetero.Op {
	return hetero.Op{Tokens: tokens, Rows: p.Rows, Cols: p.Cols, Streamed: true}
}

// Weights returns the number of weights of all layers.
func (m *Model) Weights() float64 {
	sum := 0.0
	for _, p := range m.Matmuls() {
		sum += float64(p.Rows) * float64(p.Cols)
	}
	return sum * float64(m.Layers)
}
