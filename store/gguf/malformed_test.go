package gguf

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

const (
	typeF32  = 0
	typeF16  = 1
	typeQ8_0 = 8
)

// TestSparseHeadersTakeLittleMemory opens files whose header is a hole of 250 MiB. Go's heap
// grows by less than 40 MiB, most of which is one array.
func TestSparseHeadersTakeLittleMemory(t *testing.T) {
	for name, header := range map[string]*raw{
		"ten million tensors":  begin(10e6, 0),
		"tensors without name": begin(1<<17, 0),
		"keys":                 begin(0, 1<<20),
		"strings":              begin(0, 1).key("a", kindArray).u32(uint32(kindString)).u64(30e6),
		"allowed strings":      begin(0, 2).key("a", kindArray).u32(uint32(kindString)).u64(maxElements),
		"numbers":              begin(0, 1).key("a", kindArray).u32(uint32(kindUint64)).u64(30e6),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "sparse.gguf")
			require.NoError(t, os.WriteFile(path, header.b, 0o600))
			require.NoError(t, os.Truncate(path, 250<<20))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Open(vfs.OS(), path)
			runtime.ReadMemStats(&after)
			require.ErrorIs(t, err, store.ErrFormat)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(40<<20))
		})
	}
}

// TestOpenRejectsMalformedHeaders opens one tiny file for each error that a header can
// contain and checks the reason.
func TestOpenRejectsMalformedHeaders(t *testing.T) {
	malformed, truncated, unsupported := store.ErrFormat, store.ErrTruncated, store.ErrUnsupported
	cases := []struct {
		name   string
		file   *raw
		kind   error
		reason string
	}{
		{"empty file", &raw{}, truncated, "magic: needs 4 bytes, the file has 0 left"},
		{"three bytes", &raw{[]byte("GGU")}, truncated, "magic"},

		{"byte-swapped magic", &raw{[]byte("FUGG\x00\x00\x00\x03")}, malformed, "big-endian"},
		{"magic in small letters", &raw{[]byte("gguf\x03\x00\x00\x00")}, malformed, "capital letters"},
		{"zip archive", &raw{[]byte("PK\x03\x04\x14\x00")}, malformed, "zip archive"},
		{"older format", &raw{[]byte("tjgg\x03\x00\x00\x00")}, malformed, "older than GGUF"},
		{"safetensors", &raw{[]byte("\x40\x01\x00\x00\x00\x00\x00\x00{")}, malformed, "safetensors"},
		{"text", &raw{[]byte("<!DOCTYPE html>")}, malformed, `"<!DO" is not "GGUF"`},

		{"version 0", version(0), unsupported, "version: 0 is unknown"},
		{"version 1", version(1), unsupported, "convert the model again"},
		{"version 4", version(4), unsupported, "version: 4 is unknown"},
		{"version of a big-endian file", version(0x03000000), unsupported, "big-endian?"},

		{"2^31 tensors", begin(1<<31, 0), truncated, "tensor count: 2147483648 do not fit"},
		{"2^64-1 tensors", begin(1<<64-1, 0), truncated, "tensor count"},
		{"2^31 keys", begin(0, 1<<31), truncated, "key count: 2147483648 do not fit"},
		{"2^63 keys", begin(0, 1<<63), truncated, "key count"},
		{"counts that fit one by one only", begin(2, 3).bytes(make([]byte, 50)...), truncated, "tensor and key count together"},

		{"key of 2^64-1 bytes", begin(0, 1).u64(1<<64 - 1).bytes(make([]byte, 20)...), truncated, "name of a key"},
		{"key of 2^62 bytes", begin(0, 1).u64(1 << 62).bytes(make([]byte, 20)...), truncated, "name of a key"},
		{"key one byte beyond the end", begin(0, 1).u64(21).bytes(make([]byte, 20)...), truncated, "needs 21 bytes, the file has 20 left"},
		{"key of 65536 bytes", begin(0, 1).text(strings.Repeat("k", 1<<16)).u32(0), malformed, "at most 65535"},
		{"empty key", begin(0, 1).key("", kindUint8).bytes(make([]byte, 9)...), malformed, "name of a key: is empty"},
		{"key twice", begin(0, 2).key("a", kindUint8).bytes(1).key("a", kindUint8).bytes(1), malformed, `key "a": the key occurs twice`},

		{"value kind 13", begin(0, 1).key("a", 13).u64(0), malformed, `key "a": unknown kind 13`},
		{"value kind 2^32-1", begin(0, 1).key("a", 1<<32-1).u64(0), malformed, "unknown kind 4294967295"},
		{"array of kind 13", begin(0, 1).key("a", kindArray).u32(13).u64(0), malformed, "array of unknown kind 13"},
		{"bool of 2", begin(0, 1).key("a", kindBool).bytes(2), malformed, "2 is not a bool"},
		{"arrays 256 deep", nestedArrays(256), unsupported, "an array of arrays"},
		{"2^31 strings in 100 bytes", begin(0, 1).key("a", kindArray).u32(uint32(kindString)).u64(1 << 31).bytes(make([]byte, 50)...), truncated, "do not fit"},
		{"2^31 bytes in 100 bytes", begin(0, 1).key("a", kindArray).u32(uint32(kindUint8)).u64(1 << 31).bytes(make([]byte, 50)...), truncated, "do not fit"},
		{"array length that overflows in bytes", begin(0, 1).key("a", kindArray).u32(uint32(kindUint64)).u64(1<<61 + 1).bytes(make([]byte, 50)...), truncated, "do not fit"},
		{"string of 2^63 bytes", begin(0, 1).key("a", kindString).u64(1 << 63), truncated, `key "a"`},
		{"string in an array beyond the end", begin(0, 1).key("a", kindArray).u32(uint32(kindString)).u64(2, 0, 1), truncated, `key "a"`},

		{"alignment 0", aligned(0), malformed, `key "general.alignment": 0 is not a power of two`},
		{"alignment 3", aligned(3), malformed, "3 is not a power of two"},
		{"alignment 13", aligned(13), malformed, "13 is not a power of two"},
		{"alignment 2^31", aligned(1 << 31), malformed, "2147483648 is not a power of two from 1 to"},
		{"alignment of kind int32", begin(0, 1).key(alignmentKey, kindInt32).u32(32), malformed, "holds int32 where uint32 is expected"},
		{"alignment of kind string", begin(0, 1).key(alignmentKey, kindString).text("32"), malformed, "holds string"},

		{"5 dimensions", begin(1, 0).tensor("x", typeF32, 0, 1, 1, 1, 1, 1).data(4), malformed, `tensor "x": 5 dimensions`},
		{"2^32-1 dimensions", begin(1, 0).text("x").u32(1<<32-1).u64(1, 1, 1), malformed, "4294967295 dimensions"},
		{"dimension 0", begin(1, 0).tensor("x", typeF32, 0, 4, 0).data(4), malformed, "dimension 1 is 0"},
		{"dimension 2^63", begin(1, 0).tensor("x", typeF32, 0, 1<<63).data(4), malformed, "dimension 0 is 9223372036854775808"},
		{"2^32 by 2^32", begin(1, 0).tensor("x", typeF32, 0, 1<<32, 1<<32).data(4), malformed, "overflows"},
		{"two huge tensors whose sum wraps", begin(2, 0).tensor("x", typeF16, 0, 0x3FFFFFFFFFFFFFE0).tensor("y", typeF16, 0, 0x3FFFFFFFFFFFFFE0).data(64), truncated, "reach beyond the end"},
		{"elements fit, bytes do not", begin(1, 0).tensor("x", typeF32, 0, 1<<61).data(4), malformed, "overflows"},
		{"a row of 31 in blocks of 32", begin(1, 0).tensor("x", typeQ8_0, 0, 31, 2).data(68), malformed, `tensor "x": quant: a row of 31 elements`},

		{"tensor type -1", begin(1, 0).tensor("x", 1<<32-1, 0, 32).data(64), unsupported, "unknown tensor type 4294967295"},
		{"tensor type that was removed", begin(1, 0).tensor("x", 31, 0, 32).data(64), unsupported, "Q4_0_4_4"},
		{"tensor type that is not read", begin(1, 0).tensor("x", 9, 0, 256).data(96), unsupported, "Q8_1"},
		{"tensor type too large", begin(1, 0).tensor("x", 1000, 0, 32).data(64), unsupported, "unknown tensor type 1000"},

		{"offset not aligned", begin(1, 0).tensor("x", typeF32, 1, 8).data(64), malformed, "offset 1 is not a multiple of the alignment 32"},
		{"offset 2^64-1", begin(1, 0).tensor("x", typeF32, 1<<64-1, 8).data(64), malformed, "offset 18446744073709551615"},
		{"offset that wraps", begin(1, 0).tensor("x", typeF32, 1<<63-32, 8).data(64), truncated, "reach beyond the end"},
		{"offset one unit beyond the end", begin(1, 0).tensor("x", typeF32, 64, 8).data(64), truncated, "32 bytes at 64"},
		{"data one byte short", begin(1, 0).tensor("x", typeF32, 32, 8).data(63), truncated, "63 bytes of data"},
		{"no data section", begin(1, 0).tensor("x", typeF32, 0, 8), truncated, "0 bytes of data"},
		{"tensors that overlap", begin(2, 0).tensor("x", typeF32, 0, 16).tensor("y", typeF32, 32, 8).data(64), malformed, `tensor "y": its bytes overlap those of tensor "x"`},
		{"tensors at one place", begin(2, 0).tensor("x", typeF32, 0, 8).tensor("y", typeF32, 0, 8).data(64), malformed, "overlap"},

		{"tensor name twice", begin(2, 0).tensor("x", typeF32, 0, 8).tensor("x", typeF32, 32, 8).data(64), malformed, "the name occurs twice"},
		{"tensor name of 64 bytes", begin(1, 0).tensor(strings.Repeat("n", 64), typeF32, 0, 8).data(32), malformed, "name of a tensor: has 64 bytes, at most 63"},
		{"tensor name empty", begin(1, 0).tensor("", typeF32, 0, 8).data(32), malformed, "the name is empty"},
		{"tensor name with NUL", begin(1, 0).tensor("a\x00b", typeF32, 0, 8).data(32), malformed, "NUL"},
		{"tensor name with ../", begin(1, 0).tensor("../x", typeF32, 0, 8).data(32), malformed, "path out of its directory"},

		{"split into 65535", begin(0, 1).key(splitCountKey, kindUint16).bytes(0xff, 0xff), malformed, "65535 shards; this program reads at most 1024"},
		{"split count of kind string", begin(0, 1).key(splitCountKey, kindString).text("2"), malformed, "holds string where an integer"},
		{"split without number", begin(0, 1).key(splitCountKey, kindUint16).bytes(2, 0), malformed, `key "split.no": is missing`},
		{"split number too high", begin(0, 2).key(splitCountKey, kindUint16).bytes(2, 0).key(splitNoKey, kindUint16).bytes(2, 0), malformed, "2 is not below"},
		{"split under another name", begin(0, 2).key(splitCountKey, kindUint16).bytes(2, 0).key(splitNoKey, kindUint16).bytes(0, 0), malformed, "does not end in -00001-of-00002.gguf"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := openBytes(t, c.file.b)
			requireRejected(t, err, c.kind, c.reason)
		})
	}
}

func version(v uint32) *raw {
	r := (&raw{[]byte(Magic)}).u32(v)
	return r.u64(0, 0)
}

func aligned(to uint32) *raw { return begin(0, 1).key(alignmentKey, kindUint32).u32(to) }

func nestedArrays(depth int) *raw {
	r := begin(0, 1).key("a", kindArray)
	for range depth {
		r.u32(uint32(kindArray)).u64(1)
	}
	return r.u32(uint32(kindUint8)).u64(0)
}

// TestGettersNameTheKey checks that the error for a value of the wrong kind, width or sign
// names the key and its offset.
func TestGettersNameTheKey(t *testing.T) {
	f := openKeys(t, []KV{
		{"llama.block_count", "12"},
		{"llama.rope.freq_base", uint32(10000)},
		{"tokenizer.ggml.scores", []int8{1, 2}},
		{"tokenizer.ggml.tokens", []int32{1}},
		{"tokenizer.ggml.bos_token_id", int32(-1)},
		{"huge", uint64(1 << 63)},
		{"huges", []uint64{0, 1 << 63}},
		{"name", []string{"x"}},
		{"flag", uint8(1)},
	})
	m := f.Meta()
	for _, c := range []struct {
		key, reason string
		err         error
	}{
		{"llama.block_count", "holds string where an integer", third(m.Uint("llama.block_count"))},
		{"llama.block_count", "holds string where an integer", third(m.Int("llama.block_count"))},
		{"llama.rope.freq_base", "holds uint32 where a float", third(m.Float("llama.rope.freq_base"))},
		{"tokenizer.ggml.scores", "holds array of int8 where an array of floats", third(m.Floats("tokenizer.ggml.scores"))},
		{"tokenizer.ggml.tokens", "holds array of int32 where an array of strings", third(m.Strings("tokenizer.ggml.tokens"))},
		{"tokenizer.ggml.tokens", "where an array of bools", third(m.Bools("tokenizer.ggml.tokens"))},
		{"tokenizer.ggml.tokens", "where an array of bytes", third(m.Bytes("tokenizer.ggml.tokens"))},
		{"tokenizer.ggml.bos_token_id", "-1 is negative", third(m.Uint("tokenizer.ggml.bos_token_id"))},
		{"huge", "9223372036854775808 is too large", third(m.Int("huge"))},
		{"huges", "element 1 is too large", third(m.Ints("huges"))},
		{"name", "holds array of string where a string", third(m.String("name"))},
		{"name", "where an array of integers", third(m.Ints("name"))},
		{"flag", "holds uint8 where a bool", third(m.Bool("flag"))},
	} {
		requireRejected(t, c.err, store.ErrFormat, fmt.Sprintf("key %q: ", c.key))
		require.Contains(t, c.err.Error(), c.reason)
		require.Contains(t, c.err.Error(), "at offset ")
	}
}

// third returns the error of a getter.
func third[T any](_ T, _ bool, err error) error { return err }

// TestEveryTruncationFails checks that Open rejects a file that is truncated at any byte.
func TestEveryTruncationFails(t *testing.T) {
	whole := encoded(t, sampleKeys(), sampleTensors())
	_, err := openBytes(t, whole)
	require.NoError(t, err)
	for n := range len(whole) {
		_, err := openBytes(t, whole[:n])
		require.ErrorIs(t, err, store.ErrTruncated, "truncated to %d of %d bytes", n, len(whole))
		require.ErrorIs(t, err, store.ErrFormat)
	}
}

// TestDenseHeadersStayInBounds opens files that consist of the smallest possible records,
// the worst ratio of memory to input. openBytes checks the bounds.
func TestDenseHeadersStayInBounds(t *testing.T) {
	const n = 100_000
	keys := begin(0, n)
	for i := range n {
		keys.key(fmt.Sprintf("%04x", i), kindUint8).bytes(0)
	}
	tensors := begin(n, 0)
	for i := range n {
		tensors.tensor(fmt.Sprintf("%04x", i), typeF32, uint64(i)*defaultAlignment)
	}
	tensors.data(n * defaultAlignment)
	lists := begin(0, n)
	for i := range n {
		lists.key(fmt.Sprintf("%04x", i), kindArray).u32(uint32(kindString)).u64(0)
	}
	strings := begin(0, 1).key("a", kindArray).u32(uint32(kindString)).u64(n).bytes(make([]byte, 8*n)...)
	for name, c := range map[string]*raw{"keys": keys, "tensors": tensors, "lists": lists, "strings": strings} {
		t.Run(name, func(t *testing.T) {
			_, err := openBytes(t, c.b)
			require.NoError(t, err)
		})
	}
	t.Run("tensors without data", func(t *testing.T) {
		_, err := openBytes(t, tensors.b[:len(tensors.b)-n*defaultAlignment])
		require.Error(t, err)
	})
}
