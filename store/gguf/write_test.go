package gguf

import (
	"bytes"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/vfs"
)

// TestCopyKeepsEveryKey copies a file with a value of each kind twice. The copies must be
// equal byte for byte, and the getters must return the original values.
func TestCopyKeepsEveryKey(t *testing.T) {
	keys := []KV{
		{"u8", uint8(200)},
		{"i8", int8(-2)},
		{"u16", uint16(60000)},
		{"i16", int16(-300)},
		{"u32", uint32(1 << 31)},
		{"i32", int32(math.MinInt32)},
		{"f32", float32(1.5)},
		{"yes", true},
		{"no", false},
		{"text", "a\x00b"},
		{"none", ""},
		{"u64", uint64(math.MaxUint64)},
		{"i64", int64(math.MinInt64)},
		{"f64", math.Pi},
		{"list", []string{"x", "", "yz"}},
		{"empty list", []string{}},
		{"numbers", []int32{1, -1}},
		{"no numbers", []float64{}},
		{"bools", []bool{true, false}},
		{alignmentKey, uint32(64)},
		{splitNoKey, uint16(0)},
		{splitCountKey, uint16(1)},
		{splitTensorsKey, int32(2)},
	}
	fsys := vfs.NewMem()
	require.NoError(t, Write(fsys, "a.gguf", keys, []TensorData{{Name: "big", Type: quant.F32, Shape: []int{4}, Data: make([]byte, 16)}}))
	table := []TensorData{{Name: "rope_freqs.weight", Type: quant.F32, Shape: []int{1}, Data: []byte{1, 2, 3, 4}}}
	var copies [2]bytes.Buffer
	for i, name := range []string{"a.gguf", "copy.gguf"} {
		f, err := Open(fsys, name)
		require.NoError(t, err)
		require.NoError(t, WriteCopy(&copies[i], f.Meta(), table))
		require.NoError(t, f.Close())
		require.NoError(t, vfs.WriteFile(fsys, "copy.gguf", copies[i].Bytes()))
	}
	require.Equal(t, copies[0].Bytes(), copies[1].Bytes())
	f, err := Open(fsys, "copy.gguf")
	require.NoError(t, err)
	defer f.Close()
	for _, kv := range keys[:len(keys)-3] {
		require.True(t, f.Meta().Has(kv.Key), kv.Key)
	}
	require.False(t, f.Meta().Has(splitCountKey), "the copy is a single file")
	list, ok, err := f.Meta().Strings("list")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "yz", list.At(2))
	text, _, err := f.Meta().String("text")
	require.NoError(t, err)
	require.Equal(t, "a\x00b", text)
	low, _, err := f.Meta().Int("i64")
	require.NoError(t, err)
	require.EqualValues(t, math.MinInt64, low)
	require.Len(t, f.Tensors(), 1)
	data := make([]byte, 4)
	_, err = f.ReadAt(f.Tensors()[0], data, 0)
	require.NoError(t, err)
	require.Equal(t, []byte{1, 2, 3, 4}, data)
}
