package pack

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/bound"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// openBytes opens data as a pack, checks the memory bound that holds for every parser, and
// reads everything.
func openBytes(tb testing.TB, data []byte) (err error) {
	fsys := vfs.FromIOFS(fstest.MapFS{"m.pack": &fstest.MapFile{Data: data}})
	bound.Check(tb, len(data), func() {
		var f *File
		if f, err = Open(fsys, "m.pack"); err == nil {
			err = f.Verify(context.Background(), nil)
			_ = f.Close()
		}
	})
	return err
}

func goldenBytes(tb testing.TB) []byte {
	data, err := os.ReadFile(filepath.Join("testdata", "version2.pack"))
	require.NoError(tb, err)
	return data
}

// rebuilt returns the small pack with a changed index and valid checksums, as an attacker
// could create it.
func rebuilt(t *testing.T, change func(x *index)) []byte {
	data := goldenBytes(t)
	f, err := decodeFooter("m.pack", data[len(data)-footerBytes:], int64(len(data)))
	require.NoError(t, err)
	x, err := decodeIndex("m.pack", Version, data[f.index:][:f.length], f, func(int64) error { return nil })
	require.NoError(t, err)
	change(x)
	return withIndex(data[:f.index], x.encode())
}

// withIndex appends an index and a footer to the extents.
func withIndex(extents, encoded []byte) []byte {
	f := footer{index: int64(len(extents)), length: int64(len(encoded)), sum: checksum(encoded)}
	f.file = f.index + f.length + footerBytes
	return append(append(append([]byte(nil), extents...), encoded...), f.encode()...)
}

// withFooter changes the footer and updates its checksum.
func withFooter(t *testing.T, change func(f *footer)) []byte {
	data := goldenBytes(t)
	at := len(data) - footerBytes
	f, err := decodeFooter("m.pack", data[at:], int64(len(data)))
	require.NoError(t, err)
	change(&f)
	return append(data[:at], f.encode()...)
}

func TestOpenRejectsMalformedPacks(t *testing.T) {
	const q, tile = 3, 2 // tensors of the small pack: blk.0.attn_q.weight and output.weight
	golden := goldenBytes(t)
	with := func(at int, b ...byte) []byte {
		data := append([]byte(nil), golden...)
		copy(data[at:], b)
		return data
	}
	change := func(edit func(x *index)) []byte { return rebuilt(t, edit) }
	foot := func(edit func(f *footer)) []byte { return withFooter(t, edit) }
	for _, c := range []struct {
		name string
		data []byte
		want string
		kind error
	}{
		{"empty", nil, "a pack has at least", store.ErrTruncated},
		{"3 bytes", []byte("LLM"), "a pack has at least", store.ErrTruncated},
		{"another magic", with(0, []byte("GGUF")...), `"GGUFPACK" is not "LLMRPACK"`, store.ErrFormat},
		{"the next version", with(8, 4), "4 is unknown; this program reads 2", store.ErrUnsupported},
		{"other blocks", with(12, 1), "header: is damaged", store.ErrFormat},
		{"no footer", with(len(golden)-8, 0), "footer: is missing", store.ErrTruncated},
		{"a damaged footer", with(len(golden)-20, 1), "footer: is damaged", store.ErrFormat},
		{"a damaged index", with(len(golden)-footerBytes-1, 0xff), "index: checksum mismatch", store.ErrFormat},
		{"bytes cut out", append(append([]byte(nil), golden[:8192]...), golden[12288:]...), "was written with", store.ErrTruncated},
		{"index past the end", foot(func(f *footer) { f.index += 1 << 40 }), "does not end before the footer", store.ErrFormat},
		{"index of 2^63 bytes", foot(func(f *footer) { f.length = math.MinInt64 }), "does not end before the footer", store.ErrFormat},
		{"index in the header", foot(func(f *footer) { f.index = 0 }), "does not end before the footer", store.ErrFormat},
		{"index cut short", withIndex(golden[:8192], []byte{1, 0}), "needs 1 bytes, the index has 0 left", store.ErrTruncated},
		{"another tiling", change(func(x *index) { x.about.Tiling = 99 }), "tiling: version 99 is unknown", store.ErrUnsupported},
		{"an extent over another", change(func(x *index) { x.extents[3].off -= 4096 }), `section "ends": begins at`, store.ErrFormat},
		{"an extent out of the file", change(func(x *index) { x.extents[4].size += 1 << 30 }), "reach into the index", store.ErrFormat},
		{"an extent of 2^62 bytes", change(func(x *index) { x.extents[4].size = math.MaxInt64 }), "is out of range", store.ErrFormat},
		{"a hole", change(func(x *index) { x.extents = x.extents[:4]; x.tensors, x.extentOf = x.tensors[:3], x.extentOf[:3] }), "the end of the last extent", store.ErrFormat},
		{"an unknown kind", change(func(x *index) { x.extents[0].kind = 7 }), "kind 7 is unknown", store.ErrFormat},
		{"a wrong sum", change(func(x *index) { x.extents[4].checksums[0]++ }), `section "blk.0": checksum mismatch`, store.ErrFormat},
		{"an unknown layout", change(func(x *index) { x.tensors[q].Layout = 9 }), "layout 9 is unknown", store.ErrFormat},
		{"tiles of floats", change(func(x *index) { x.tensors[1].Layout = Tiles }), "has no tiles", store.ErrFormat},
		{"tensor of an attachment", change(func(x *index) { x.extentOf[0] = 0 }), "which is not a section", store.ErrFormat},
		{"tensor of no extent", change(func(x *index) { x.extentOf[0] = -1 }), "which is not a section", store.ErrFormat},
		{"tensors out of order", change(func(x *index) { x.extentOf[0] = 4 }), "out of order", store.ErrFormat},
		{"tensors that overlap", change(func(x *index) { x.tensors[tile].Off -= 64 }), "shared with another tensor", store.ErrFormat},
		{"an unaligned tensor", change(func(x *index) { x.tensors[tile].Off++ }), "unaligned", store.ErrFormat},
		{"a tensor past its section", change(func(x *index) { x.tensors[q].Shape[0] = 1 << 20 }), "exceed the section", store.ErrFormat},
		{"tiles past the section", change(func(x *index) { x.tensors[tile].Shape[0] = 33 }), "exceed the section", store.ErrFormat},
		{"rows × cols beyond int64", change(func(x *index) { x.tensors[q].Shape = []int{1 << 60, 256} }), "out of range", store.ErrFormat},
		{"a dimension of 2^63", change(func(x *index) { x.tensors[q].Shape[0] = math.MinInt64 }), "out of range", store.ErrFormat},
		{"no elements", change(func(x *index) { x.tensors[1].Shape = []int{0} }), "exceed the section", store.ErrFormat},
		{"five dimensions", change(func(x *index) { x.tensors[1].Shape = []int{1, 1, 1, 1, 65} }), "5 is not from 1 to 4", store.ErrFormat},
		{"no dimensions", change(func(x *index) { x.tensors[1].Shape = nil }), "0 is not from 1 to 4", store.ErrFormat},
		{"a name twice", change(func(x *index) { x.tensors[1].Name = x.tensors[0].Name }), "the name occurs twice", store.ErrFormat},
		{"a name that climbs", change(func(x *index) { x.tensors[1].Name = "../x" }), "contains a path", store.ErrFormat},
		{"no name", change(func(x *index) { x.tensors[1].Name = "" }), "the name is empty", store.ErrFormat},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := openBytes(t, c.data)
			require.ErrorContains(t, err, c.want)
			require.ErrorIs(t, err, c.kind)
			require.ErrorContains(t, err, "m.pack")
		})
	}
}

// TestUnknownTypes writes unsupported type numbers into an index.
func TestUnknownTypes(t *testing.T) {
	x := rebuilt(t, func(x *index) { x.tensors[0].Name = "token_embd.weighT" })
	at := len(x) - 1
	for ; string(x[at-6:at]) != "weighT"; at-- {
	}
	for id, want := range map[uint32]string{4: "Q4_2", 1000: "unknown tensor type 1000"} {
		f, err := decodeFooter("m.pack", x[len(x)-footerBytes:], int64(len(x)))
		require.NoError(t, err)
		binary.LittleEndian.PutUint32(x[at:], id)
		require.ErrorContains(t, openBytes(t, withIndex(x[:f.index], x[f.index:][:f.length])), want)
	}
}

// TestCountsAreChecked writes counts that exceed the index.
func TestCountsAreChecked(t *testing.T) {
	head := (&index{}).encode() // ends with two counts of zero
	for _, n := range []uint32{1, 1 << 16, math.MaxUint32} {
		for field, at := range map[string]int{"count of extents": len(head) - 8, "count of tensors": len(head) - 4} {
			b := append([]byte(nil), head...)
			binary.LittleEndian.PutUint32(b[at:], n)
			err := openBytes(t, withIndex(encodeHeader(Version), b))
			require.ErrorIs(t, err, store.ErrTruncated)
			require.ErrorContains(t, err, field)
		}
	}
}

// TestEveryByteCounts flips one bit of each byte of a small pack: Open, Verify or a read
// finds every change, and errors in weights name the block.
func TestEveryByteCounts(t *testing.T) {
	data := goldenBytes(t)
	fsys := vfs.FromIOFS(fstest.MapFS{"m.pack": &fstest.MapFile{Data: data}})
	for i := range data {
		bit := byte(1) << (i % 8)
		data[i] ^= bit
		f, err := Open(fsys, "m.pack")
		if err == nil {
			err = f.Verify(context.Background(), nil)
			require.NoError(t, f.Close())
		}
		if err == nil {
			t.Fatalf("bit %#x of byte %d changed, and nothing was found", bit, i)
		}
		data[i] ^= bit
	}
}

// TestEveryTruncation truncates the pack at each byte.
func TestEveryTruncation(t *testing.T) {
	data := goldenBytes(t)
	for n := range data {
		fsys := vfs.FromIOFS(fstest.MapFS{"m.pack": &fstest.MapFile{Data: data[:n]}})
		_, err := Open(fsys, "m.pack")
		require.ErrorIs(t, err, store.ErrFormat, "%d bytes", n)
	}
}

// manyTensors returns an index of n tensors, as a large mixture of experts has.
func manyTensors(n int) *sample {
	s := &sample{}
	for i := range n {
		if i%256 == 0 {
			s.section(fmt.Sprintf("blk.%d", i/256))
		}
		s.add(fmt.Sprintf("blk.%d.ffn_up.%d.weight", i/256, i%256), quant.F32, Rows, 1, 2)
	}
	return s
}

// TestManySmallTensors checks the memory bound for a file that is mostly index.
func TestManySmallTensors(t *testing.T) {
	fsys := manyTensors(20_000).write(t)
	data, err := vfs.ReadFile(fsys, "m.pack", 1<<30)
	require.NoError(t, err)
	require.NoError(t, openBytes(t, data))
}

func BenchmarkOpen20000Tensors(b *testing.B) {
	fsys := manyTensors(20_000).write(b)
	for b.Loop() {
		f, err := Open(fsys, "m.pack")
		if err != nil {
			b.Fatal(err)
		}
		_ = f.Close()
	}
}

func BenchmarkVerify(b *testing.B) {
	f := open(b, large().write(b))
	b.SetBytes(f.Size())
	for b.Loop() {
		if err := f.Verify(context.Background(), nil); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzOpenPack looks for files that exceed the memory bound, or that open and then fail
// with an error that is not a format error.
func FuzzOpenPack(f *testing.F) {
	golden := goldenBytes(f)
	f.Add(golden, false)
	f.Add(golden, true)
	random := rand.New(rand.NewPCG(1, 2))
	for range 8 {
		data := append([]byte(nil), golden...)
		data[random.IntN(len(data))] ^= byte(random.Uint32())
		f.Add(data, true)
	}
	f.Fuzz(func(t *testing.T, data []byte, fixChecksums bool) {
		if fixChecksums {
			data = withValidChecksums(data)
		}
		err := openBytes(t, data)
		if err != nil {
			require.True(t, isFormatError(err), "%v", err)
		}
	})
}

func isFormatError(err error) bool {
	for _, kind := range []error{store.ErrFormat, store.ErrUnsupported} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// withValidChecksums updates the checksums of footer and index, so that the fuzzer gets
// past them.
func withValidChecksums(data []byte) []byte {
	if len(data) < headerBytes+footerBytes {
		return data
	}
	data = append([]byte(nil), data...)
	copy(data, encodeHeader(Version))
	at := len(data) - footerBytes
	index := binary.LittleEndian.Uint64(data[at:])
	if index > uint64(at) {
		return data
	}
	encoded := data[index:at]
	return append(data[:at], footer{int64(index), int64(len(encoded)), checksum(encoded), int64(len(data))}.encode()...)
}
