package gguf

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzOpenGGUF checks that Open accepts or rejects any input within the memory bounds of
// openBytes, and that every tensor and key of an accepted file can be read.
func FuzzOpenGGUF(f *testing.F) {
	f.Add(encoded(f, sampleKeys(), sampleTensors()))
	f.Add(encoded(f, sampleKeys()[:3], nil))
	f.Add(encoded(f, []KV{{alignmentKey, uint32(64)}, {"strings", []string{"a", "bc"}}}, sampleTensors()[:1]))
	f.Add(begin(1, 0).tensor("x", typeQ8_0, 0, 32).data(34).b)
	f.Add(nestedArrays(4).b)
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := openBytes(t, data)
		if err != nil {
			return
		}
		for _, tensor := range file.Tensors() {
			_, err := file.ReadAt(tensor, make([]byte, tensor.Size), 0)
			require.NoError(t, err)
		}
		readEveryKey(t, file.Meta())
		require.NoError(t, file.Close())
	})
}

// readEveryKey calls all getters for all keys: at most one of them may succeed.
func readEveryKey(t *testing.T, m *Metadata) {
	for _, key := range m.Keys() {
		if list, ok, _ := m.Strings(key); ok {
			for i, s := range list.All() {
				require.Equal(t, s, list.At(i))
			}
		}
		_, isString, _ := m.String(key)
		_, isBool, _ := m.Bool(key)
		_, isInt, _ := m.Int(key)
		_, isFloat, _ := m.Float(key)
		_, areInts, _ := m.Ints(key)
		_, areFloats, _ := m.Floats(key)
		kinds := 0
		for _, is := range []bool{isString, isBool, isInt, isFloat, areInts, areFloats} {
			if is {
				kinds++
			}
		}
		require.LessOrEqual(t, kinds, 1, key)
	}
}
