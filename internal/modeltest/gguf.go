package modeltest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/gguf"
	"github.com/llmrun/llmrun/store/vfs"
)

// GGUF is a GGUF file in parts that tests can change.
type GGUF struct {
	Keys    []gguf.KV
	Tensors []gguf.TensorData
}

// Write writes the file as m.gguf of a file system in memory.
func (g *GGUF) Write(t testing.TB) vfs.FS {
	t.Helper()
	fsys := vfs.NewMem()
	require.NoError(t, gguf.Write(fsys, "m.gguf", g.Keys, g.Tensors))
	return fsys
}

// Set sets or replaces the value of a key.
func (g *GGUF) Set(key string, value any) {
	g.Drop(key)
	g.Keys = append(g.Keys, gguf.KV{Key: key, Value: value})
}

func (g *GGUF) Drop(key string) {
	for i := range g.Keys {
		if g.Keys[i].Key == key {
			g.Keys = append(g.Keys[:i:i], g.Keys[i+1:]...)
			return
		}
	}
}

// Tensor returns a tensor, which the caller may change.
func (g *GGUF) Tensor(t testing.TB, name string) *gguf.TensorData {
	t.Helper()
	for i := range g.Tensors {
		if g.Tensors[i].Name == name {
			return &g.Tensors[i]
		}
	}
	t.Fatalf("no tensor %q", name)
	return nil
}

// DropTensor removes a tensor, which must exist.
func (g *GGUF) DropTensor(t testing.TB, name string) {
	t.Helper()
	g.Tensor(t, name)
	var rest []gguf.TensorData
	for _, d := range g.Tensors {
		if d.Name != name {
			rest = append(rest, d)
		}
	}
	g.Tensors = rest
}

// AddFloats adds a list of numbers as a tensor.
func (g *GGUF) AddFloats(name string, values []float64) {
	r := &rows{typ: quant.F32, shape: []int{len(values)}}
	for _, v := range values {
		r.appendFloat(float32(v))
	}
	g.Tensors = append(g.Tensors, gguf.TensorData{Name: name, Type: r.typ, Shape: r.shape, Data: r.data})
}

// EachStack calls f for every tensor of stacked experts and replaces the tensor by f's result.
func (g *GGUF) EachStack(f func(d gguf.TensorData) []gguf.TensorData) {
	var out []gguf.TensorData
	for _, d := range g.Tensors {
		if strings.HasSuffix(d.Name, "_exps.weight") {
			out = append(out, f(d)...)
		} else {
			out = append(out, d)
		}
	}
	g.Tensors = out
}

// As returns the file with the keys of another architecture.
func (g *GGUF) As(arch string) *GGUF {
	for i := range g.Keys {
		if rest, ok := strings.CutPrefix(g.Keys[i].Key, "llama."); ok {
			g.Keys[i].Key = arch + "." + rest
		}
	}
	g.Set("general.architecture", arch)
	return g
}
