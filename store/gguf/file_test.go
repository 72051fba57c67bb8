package gguf

import (
	"bytes"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// sampleKeys returns a value of every kind, alone and in an array.
func sampleKeys() []KV {
	return []KV{
		{"general.architecture", "llama"},
		{"u8", uint8(200)},
		{"i8", int8(-100)},
		{"u16", uint16(60000)},
		{"i16", int16(-30000)},
		{"u32", uint32(4e9)},
		{"i32", int32(-2e9)},
		{"u64", uint64(math.MaxUint64)},
		{"i64", int64(math.MinInt64)},
		{"f32", float32(1.5)},
		{"f64", 2.25},
		{"yes", true},
		{"no", false},
		{"u8s", []uint8{1, 255}},
		{"i8s", []int8{1, -1}},
		{"u16s", []uint16{65535}},
		{"i16s", []int16{-1}},
		{"u32s", []uint32{1 << 31}},
		{"i32s", []int32{-7, 7}},
		{"u64s", []uint64{9}},
		{"i64s", []int64{-9}},
		{"f32s", []float32{0.5, -0.5}},
		{"f64s", []float64{0.25}},
		{"bools", []bool{true, false, true}},
		{"strings", []string{"", "a", "ä\x00\xff", "long enough"}},
		{"none", []string{}},
	}
}

// sampleTensors returns tensors that end at a multiple of the alignment, so that no byte of
// the file is unused.
func sampleTensors() []TensorData {
	return []TensorData{
		{Name: "token_embd.weight", Type: quant.F32, Shape: []int{3, 8}, Data: pattern(96, 1)},
		{Name: "blk.0.ffn_up.weight", Type: quant.Q8_0, Shape: []int{2, 64}, Data: pattern(136, 2)},
		{Name: "blk.0.experts.weight", Type: quant.BF16, Shape: []int{2, 2, 16}, Data: pattern(128, 3)},
	}
}

func pattern(n int, seed byte) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i)*7 + seed
	}
	return p
}

func encoded(tb testing.TB, keys []KV, tensors []TensorData) []byte {
	tb.Helper()
	var b bytes.Buffer
	require.NoError(tb, encode(&b, keys, tensors))
	return b.Bytes()
}

func openKeys(tb testing.TB, keys []KV) *File {
	tb.Helper()
	f, err := openBytes(tb, encoded(tb, keys, nil))
	require.NoError(tb, err)
	return f
}

func TestMetadataOfEveryKind(t *testing.T) {
	m := openKeys(t, sampleKeys()).Meta()
	for key, want := range map[string]int64{
		"u8": 200, "i8": -100, "u16": 60000, "i16": -30000, "u32": 4e9, "i32": -2e9, "i64": math.MinInt64,
	} {
		got, ok, err := m.Int(key)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, want, got, key)
	}
	unsigned, ok, err := m.Uint("u64")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, uint64(math.MaxUint64), unsigned)
	for key, want := range map[string]float64{"f32": 1.5, "f64": 2.25} {
		got, _, err := m.Float(key)
		require.NoError(t, err)
		require.Equal(t, want, got, key)
	}
	for key, want := range map[string]bool{"yes": true, "no": false} {
		got, ok, err := m.Bool(key)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, want, got, key)
	}
	name, _, err := m.String("general.architecture")
	require.NoError(t, err)
	require.Equal(t, "llama", name)
}

func TestArraysOfEveryKind(t *testing.T) {
	m := openKeys(t, sampleKeys()).Meta()
	for key, want := range map[string][]int64{
		"u8s": {1, 255}, "i8s": {1, -1}, "u16s": {65535}, "i16s": {-1}, "u32s": {1 << 31}, "i32s": {-7, 7}, "u64s": {9}, "i64s": {-9},
	} {
		got, ok, err := m.Ints(key)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, want, got, key)
		n, ok := m.Len(key)
		require.True(t, ok)
		require.Len(t, want, n)
	}
	for key, want := range map[string][]float32{"f32s": {0.5, -0.5}, "f64s": {0.25}} {
		got, _, err := m.Floats(key)
		require.NoError(t, err)
		require.Equal(t, want, got, key)
	}
	bools, _, err := m.Bools("bools")
	require.NoError(t, err)
	require.Equal(t, []bool{true, false, true}, bools)
	raw, ok, err := m.Bytes("u8s")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, []byte{1, 255}, raw)
	list, _, err := m.Strings("strings")
	require.NoError(t, err)
	var got []string
	for i, s := range list.All() {
		require.Equal(t, s, list.At(i))
		got = append(got, s)
	}
	require.Equal(t, []string{"", "a", "ä\x00\xff", "long enough"}, got)
	none, ok, err := m.Strings("none")
	require.NoError(t, err)
	require.True(t, ok)
	require.Zero(t, none.Len())
}

func TestKeysAndKinds(t *testing.T) {
	m := openKeys(t, sampleKeys()).Meta()
	var want []string
	for _, kv := range sampleKeys() {
		want = append(want, kv.Key)
	}
	require.Equal(t, want, m.Keys())
	require.True(t, m.Has("u8"))
	require.False(t, m.Has("U8"))
	require.True(t, m.IsArray("u8s"))
	require.False(t, m.IsArray("u8"))
	require.Equal(t, "array of float32", m.Kind("f32s"))
	require.Equal(t, "uint16", m.Kind("u16"))
	require.Empty(t, m.Kind("absent"))
	_, ok := m.Len("u8")
	require.False(t, ok)
	_, ok, err := m.Uint("absent")
	require.NoError(t, err)
	require.False(t, ok)
	_, ok, err = m.Floats("absent")
	require.NoError(t, err)
	require.False(t, ok)
}

func TestTensorsRoundTrip(t *testing.T) {
	for _, keys := range [][]KV{nil, {{alignmentKey, uint32(4096)}}, {{alignmentKey, uint32(1)}}} {
		fsys := vfs.NewMem()
		tensors := sampleTensors()
		tensors[1].From, tensors[1].Data = bytes.NewReader(tensors[1].Data), nil
		require.NoError(t, Write(fsys, "m.gguf", keys, tensors))
		f, err := Open(fsys, "m.gguf")
		require.NoError(t, err)
		require.Equal(t, []string{"m.gguf"}, f.Files())
		require.Len(t, f.Tensors(), len(tensors))
		for i, want := range sampleTensors() {
			got, ok := f.Tensor(want.Name)
			require.True(t, ok)
			require.Equal(t, f.Tensors()[i], got)
			require.Equal(t, want.Shape, got.Shape)
			require.Equal(t, want.Type, got.Type)
			data := make([]byte, got.Size)
			_, err := f.ReadAt(got, data, 0)
			require.NoError(t, err)
			require.Equal(t, want.Data, data)
		}
		require.NoError(t, f.Close())
	}
}

func TestVersion2Opens(t *testing.T) {
	whole := encoded(t, sampleKeys(), sampleTensors())
	whole[4] = 2
	f, err := openBytes(t, whole)
	require.NoError(t, err)
	require.Len(t, f.Tensors(), 3)
}

// TestLargeHeader reads values that straddle the reader's window.
func TestLargeHeader(t *testing.T) {
	words := make([]string, 30000)
	for i := range words {
		words[i] = strings.Repeat(string(rune('a'+i%26)), i%23)
	}
	words[777] = strings.Repeat("long", windowBytes)
	scores := make([]float32, 30000)
	scores[29999] = 3
	m := openKeys(t, []KV{{"words", words}, {"scores", scores}, {"template", words[777]}, {"last", "x"}}).Meta()
	list, _, err := m.Strings("words")
	require.NoError(t, err)
	require.Equal(t, len(words), list.Len())
	for i, s := range list.All() {
		require.Equal(t, words[i], s)
	}
	got, _, err := m.Floats("scores")
	require.NoError(t, err)
	require.Equal(t, scores, got)
	for key, want := range map[string]string{"template": words[777], "last": "x"} {
		text, _, err := m.String(key)
		require.NoError(t, err)
		require.Equal(t, want, text)
	}
}

func TestWriteRejectsInvalidInput(t *testing.T) {
	for name, c := range map[string]struct {
		keys    []KV
		tensors []TensorData
		reason  string
	}{
		"value of another type": {[]KV{{"k", 1}}, nil, "GGUF cannot store a value of type int"},
		"wrong length":          {nil, []TensorData{{Name: "x", Type: quant.F32, Shape: []int{2}, Data: make([]byte, 7)}}, "7 bytes given"},
		"half a block":          {nil, []TensorData{{Name: "x", Type: quant.Q8_0, Shape: []int{31}, Data: make([]byte, 34)}}, "a row of 31"},
		"short reader":          {nil, []TensorData{{Name: "x", Type: quant.F32, Shape: []int{2}, From: strings.NewReader("1234")}}, "EOF"},
		"no data":               {nil, []TensorData{{Name: "x", Type: quant.F32, Shape: []int{2}}}, "neither Data nor From"},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := vfs.NewMem()
			require.ErrorContains(t, Write(fsys, "m.gguf", c.keys, c.tensors), c.reason)
			infos, err := fsys.ReadDir(".")
			require.NoError(t, err)
			require.Empty(t, infos, "a failed Write leaves no file")
		})
	}
}

// TestEveryReadErrorSurfaces fails each operation of Open in turn.
func TestEveryReadErrorSurfaces(t *testing.T) {
	fsys := vfs.NewMem()
	require.NoError(t, Write(fsys, "m.gguf", sampleKeys(), sampleTensors()))
	injected := errors.New("injected")
	for k := int64(0); ; k++ {
		closed := 0
		failed, opening := false, true
		f, err := Open(vfs.NewFaulty(fsys, func(op vfs.Op) error {
			if op.Kind == vfs.OpClose {
				closed++
			}
			if opening && op.Index == k {
				failed = true
				return injected
			}
			return nil
		}), "m.gguf")
		opening = false
		if !failed {
			require.NoError(t, err)
			require.NoError(t, f.Close())
			require.Greater(t, k, int64(2), "opening takes at least open, size and read")
			return
		}
		require.ErrorIs(t, err, injected)
		var ioErr *vfs.IOError
		require.ErrorAs(t, err, &ioErr)
		require.Equal(t, "m.gguf", ioErr.Path)
		require.Equal(t, k > 0, closed == 1, "operation %d: an opened file must be closed", k)
	}
}

func TestReadAtStaysInTensor(t *testing.T) {
	fsys := vfs.NewMem()
	require.NoError(t, Write(fsys, "m.gguf", nil, sampleTensors()))
	f, err := Open(fsys, "m.gguf")
	require.NoError(t, err)
	tensor, _ := f.Tensor("token_embd.weight")
	for _, c := range []struct {
		off int64
		n   int
	}{{-1, 1}, {0, 97}, {96, 1}, {97, 0}, {math.MaxInt64, 2}} {
		_, err := f.ReadAt(tensor, make([]byte, c.n), c.off)
		require.ErrorContains(t, err, "is outside tensor")
	}
	whole, err := vfs.ReadFile(fsys, "m.gguf", 1<<20)
	require.NoError(t, err)
	file, err := fsys.Create("m.gguf") // truncates the open file
	require.NoError(t, err)
	_, err = file.WriteAt(whole[:tensor.Offset+10], 0)
	require.NoError(t, err)
	_, err = f.ReadAt(tensor, make([]byte, 20), 0)
	require.ErrorIs(t, err, store.ErrTruncated)
	require.NotErrorIs(t, err, io.EOF)
	require.NoError(t, f.Close())
	_, err = f.ReadAt(tensor, make([]byte, 1), 0)
	require.Error(t, err)
}

func TestOpensReferenceFiles(t *testing.T) {
	vocabularies := testutil.Glob(t, "vocab", "*.gguf")
	for _, path := range slices.Concat(testutil.Glob(t, "gguf", "*.gguf"), vocabularies) {
		f, err := Open(vfs.OS(), path)
		require.NoError(t, err)
		tokens, ok, err := f.Meta().Strings("tokenizer.ggml.tokens")
		require.NoError(t, err)
		require.True(t, ok)
		require.NotZero(t, tokens.Len())
		if slices.Contains(vocabularies, path) {
			require.Empty(t, f.Tensors())
		} else {
			embedding, ok := f.Tensor("token_embd.weight")
			require.True(t, ok)
			require.Equal(t, []int{512, 256}, embedding.Shape)
		}
		require.NoError(t, f.Close())
	}
}

// TestOpenTensors opens a model without the arrays of its tokenizer: the tensors and the other keys are
// the same, the arrays are absent but for their lengths, and the metadata take little memory.
func TestOpenTensors(t *testing.T) {
	tokens, scores := make([]string, 1000), make([]float32, 1000)
	for i := range tokens {
		tokens[i] = "token"
	}
	fsys := vfs.NewMem()
	require.NoError(t, Write(fsys, "m.gguf", []KV{
		{"general.architecture", "llama"},
		{"tokenizer.ggml.model", "gpt2"},
		{"tokenizer.ggml.tokens", tokens},
		{"tokenizer.ggml.scores", scores},
		{"llama.rope.factors", scores[:3]},
	}, []TensorData{{Name: "a", Type: quant.F32, Shape: []int{2}, Data: bytes.Repeat([]byte{1}, 8)}}))
	whole, err := Open(fsys, "m.gguf")
	require.NoError(t, err)
	defer whole.Close()
	lean, err := OpenTensors(fsys, "m.gguf")
	require.NoError(t, err)
	defer lean.Close()
	require.Equal(t, whole.Tensors(), lean.Tensors())
	require.Equal(t, whole.Meta().Keys(), lean.Meta().Keys())
	require.Less(t, lean.Meta().Memory(), whole.Meta().Memory()-5000)
	model, _, err := lean.Meta().String("tokenizer.ggml.model")
	require.NoError(t, err)
	require.Equal(t, "gpt2", model)
	factors, _, err := lean.Meta().Floats("llama.rope.factors")
	require.NoError(t, err)
	require.Len(t, factors, 3)
	for _, key := range []string{"tokenizer.ggml.tokens", "tokenizer.ggml.scores"} {
		n, ok := lean.Meta().Len(key)
		require.True(t, ok)
		require.Equal(t, 1000, n)
	}
	_, ok, err := lean.Meta().Strings("tokenizer.ggml.tokens")
	require.NoError(t, err)
	require.False(t, ok)
	_, ok, err = lean.Meta().Floats("tokenizer.ggml.scores")
	require.NoError(t, err)
	require.False(t, ok)
}
