package exec

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/gguf"
	"github.com/llmrun/llmrun/store/safetensors"
	"github.com/llmrun/llmrun/store/vfs"
)

// TestGGUFExportsMatchTheCheckpoints exports every fixture to GGUF as the usual converter does,
// and compares all logits with those of the checkpoint.
func TestGGUFExportsMatchTheCheckpoints(t *testing.T) {
	for _, dir := range fixtureDirs(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			var ref reference
			testutil.ReadJSON(t, filepath.Join(dir, "reference.json"), &ref)
			options := Options{Threads: 2, Chunk: 64}
			checkpoint := loadModel(t, vfs.OS(), dir, options)
			exported := loadModel(t, exportFixture(t, dir).write(t), "m.gguf", options)
			for _, p := range ref.Prompts {
				sameLogits(t, allLogits(t, checkpoint, p.IDs), allLogits(t, exported, p.IDs))
			}
		})
	}
}

// sameLogits allows only for another order of summation: interleaved heads add up the products
// of a query and a key in another order.
func sameLogits(t *testing.T, want, got [][]float32) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		require.InDeltaSlice(t, want[i], got[i], 1e-4, "position %d", i)
		require.Equal(t, argmax(want[i]), argmax(got[i]), "position %d", i)
	}
}

// ggufModel is a GGUF file in parts that tests can change.
type ggufModel struct {
	keys    []gguf.KV
	tensors []gguf.TensorData
}

// write writes the file as m.gguf of a file system in memory.
func (g *ggufModel) write(t testing.TB) vfs.FS {
	t.Helper()
	fsys := vfs.NewMem()
	require.NoError(t, gguf.Write(fsys, "m.gguf", g.keys, g.tensors))
	return fsys
}

// set sets or replaces the value of a key.
func (g *ggufModel) set(key string, value any) {
	g.drop(key)
	g.keys = append(g.keys, gguf.KV{Key: key, Value: value})
}

func (g *ggufModel) drop(key string) {
	for i := range g.keys {
		if g.keys[i].Key == key {
			g.keys = append(g.keys[:i:i], g.keys[i+1:]...)
			return
		}
	}
}

// tensor returns a tensor, which the caller may change.
func (g *ggufModel) tensor(t testing.TB, name string) *gguf.TensorData {
	t.Helper()
	for i := range g.tensors {
		if g.tensors[i].Name == name {
			return &g.tensors[i]
		}
	}
	t.Fatalf("no tensor %q", name)
	return nil
}

// dropTensor removes a tensor, which must exist.
func (g *ggufModel) dropTensor(t testing.TB, name string) {
	t.Helper()
	g.tensor(t, name)
	var rest []gguf.TensorData
	for _, d := range g.tensors {
		if d.Name != name {
			rest = append(rest, d)
		}
	}
	g.tensors = rest
}

// exporter converts one checkpoint to a GGUF file. It shares only the tensors' bytes with the
// readers under test.
type exporter struct {
	ggufModel
	as     exportFamily
	config exportConfig
	arch   string
	stacks map[string]*rows // experts collected so far, by the name of the stacked tensor
}

// exportFixture exports the checkpoint in dir, whose config.json is of the older style.
func exportFixture(t testing.TB, dir string) *ggufModel {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "config.json"))
	require.NoError(t, err)
	src, err := safetensors.Open(vfs.OS(), dir)
	require.NoError(t, err)
	defer func() { require.NoError(t, src.Close()) }()
	return exportCheckpoint(t, data, src)
}

func exportCheckpoint(t testing.TB, config []byte, src store.Source) *ggufModel {
	t.Helper()
	e := &exporter{stacks: map[string]*rows{}}
	require.NoError(t, json.Unmarshal(config, &e.config))
	as, ok := exportFamilies[e.config.text("model_type")]
	require.True(t, ok, "no export rules for %q", e.config.text("model_type"))
	e.as, e.arch = as, as.arch
	e.set("general.architecture", e.arch)
	e.vocabulary()
	e.as.keys(e)
	for _, tensor := range src.Tensors() {
		e.export(t, readRows(t, src, tensor))
	}
	for _, name := range slices.Sorted(maps.Keys(e.stacks)) {
		e.add(name, e.stacks[name])
	}
	return &e.ggufModel
}

// vocabulary writes a token list of the right length; these tests do not use its entries.
func (e *exporter) vocabulary() {
	tokens := make([]string, e.config.whole("vocab_size"))
	for i := range tokens {
		tokens[i] = "t" + strconv.Itoa(i)
	}
	e.set("tokenizer.ggml.tokens", tokens)
}

// key sets a key of the architecture. It writes integers as uint32 and other numbers as float32,
// as converters do.
func (e *exporter) key(name string, value any) {
	switch v := value.(type) {
	case int:
		value = uint32(v)
	case float64:
		value = float32(v)
	}
	e.set(e.arch+"."+name, value)
}

// layerName matches the tensor name of a layer in a checkpoint.
var layerName = regexp.MustCompile(`^(?:model|gpt_neox)\.layers\.(\d+)\.(.*)\.(weight|bias)$`)

// expertName matches the name of an expert's matrix.
var expertName = regexp.MustCompile(`^(.*experts)\.(\d+)\.(.*)$`)

// export renames one tensor of the checkpoint, converts it by the family's rules, and adds it.
func (e *exporter) export(t testing.TB, r *rows) {
	t.Helper()
	layer := layerName.FindStringSubmatch(r.name)
	if layer == nil {
		dot := strings.LastIndexByte(r.name, '.')
		role := e.role(t, r.name[:dot])
		if role == "output" && e.config.tied() {
			return
		}
		e.add(role+r.name[dot:], r)
		return
	}
	prefix, suffix := "blk."+layer[1]+".", "."+layer[3]
	if expert := expertName.FindStringSubmatch(layer[2]); expert != nil {
		e.stack(t, prefix+e.role(t, expert[1]+"."+expert[3])+suffix, expert[2], r)
		return
	}
	role := e.role(t, layer[2])
	if e.as.split != nil && role == "attn_qkv" {
		parts := e.as.split(e, r)
		for _, part := range slices.Sorted(maps.Keys(parts)) {
			e.add(prefix+part+suffix, e.permuted(part, parts[part]))
		}
		return
	}
	e.add(prefix+role+suffix, e.permuted(role, r))
}

// role returns the GGUF name of a checkpoint's tensor.
func (e *exporter) role(t testing.TB, name string) string {
	t.Helper()
	if role, ok := e.as.names[name]; ok {
		return role
	}
	role, ok := exportNames[name]
	require.True(t, ok, "no GGUF name for %q", name)
	return role
}

// stack places an expert's matrix at its index in the stacked tensor.
func (e *exporter) stack(t testing.TB, name, expert string, r *rows) {
	t.Helper()
	i, err := strconv.Atoi(expert)
	require.NoError(t, err)
	s, ok := e.stacks[name]
	if !ok {
		s = &rows{typ: r.typ, shape: append([]int{e.config.experts()}, r.shape...)}
		s.data = make([]byte, e.config.experts()*len(r.data))
		e.stacks[name] = s
	}
	copy(s.data[i*len(r.data):], r.data)
}

// permuted reorders the rows of queries and keys for families whose rotary pairs are neighbours
// in GGUF files.
func (e *exporter) permuted(role string, r *rows) *rows {
	switch {
	case !e.as.permute:
		return r
	case role == "attn_q":
		return r.interleaved(e.config.whole("num_attention_heads"))
	case role == "attn_k":
		return r.interleaved(e.config.whole("num_key_value_heads"))
	}
	return r
}

// add adds a tensor: vectors, norms, routers and convolutions as F32, all others in the
// checkpoint's type.
func (e *exporter) add(name string, r *rows) {
	if e.as.normLessOne && strings.HasSuffix(name, "_norm.weight") {
		r = r.plusOne()
	}
	if len(r.shape) == 1 || strings.Contains(name, "ffn_gate_inp") || strings.Contains(name, "shortconv.conv.") {
		r = r.float32s()
	}
	e.tensors = append(e.tensors, gguf.TensorData{Name: name, Type: r.typ, Shape: r.shape, Data: r.data})
}

// addFloats adds a list of numbers as a tensor.
func (e *exporter) addFloats(name string, values []float64) {
	r := &rows{typ: quant.F32, shape: []int{len(values)}}
	for _, v := range values {
		r.appendFloat(float32(v))
	}
	e.tensors = append(e.tensors, gguf.TensorData{Name: name, Type: r.typ, Shape: r.shape, Data: r.data})
}
