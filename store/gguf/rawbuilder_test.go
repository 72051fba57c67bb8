package gguf

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/bound"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// raw builds a file byte by byte, including files that Write rejects.
type raw struct{ b []byte }

// begin returns a header with the given counts.
func begin(tensors, keys uint64) *raw {
	return (&raw{[]byte(Magic)}).u32(3).u64(tensors, keys)
}

func (r *raw) u32(values ...uint32) *raw {
	for _, v := range values {
		r.b = binary.LittleEndian.AppendUint32(r.b, v)
	}
	return r
}

func (r *raw) u64(values ...uint64) *raw {
	for _, v := range values {
		r.b = binary.LittleEndian.AppendUint64(r.b, v)
	}
	return r
}

func (r *raw) text(s string) *raw {
	r.b = appendString(r.b, s)
	return r
}

func (r *raw) bytes(b ...byte) *raw {
	r.b = append(r.b, b...)
	return r
}

// key appends the name of a key and the kind of its value.
func (r *raw) key(name string, k kind) *raw { return r.text(name).u32(uint32(k)) }

// tensor appends an entry of the tensor table. dims are innermost first.
func (r *raw) tensor(name string, typeID uint32, offset uint64, dims ...uint64) *raw {
	return r.text(name).u32(uint32(len(dims))).u64(dims...).u32(typeID).u64(offset)
}

// data appends the padding and n bytes of data.
func (r *raw) data(n int) *raw {
	r.b = append(r.b, make([]byte, int(padding(int64(len(r.b)), defaultAlignment))+n)...)
	return r
}

// openBytes opens data as a file and checks the memory bound that holds for every parser.
func openBytes(tb testing.TB, data []byte) (f *File, err error) {
	tb.Helper()
	fsys := vfs.FromIOFS(fstest.MapFS{"m.gguf": {Data: data}})
	bound.Check(tb, len(data), func() { f, err = Open(fsys, "m.gguf") })
	return f, err
}

// requireRejected asserts that err is a format error of the given kind that names the file
// and contains the reason.
func requireRejected(tb testing.TB, err, kind error, reason string) {
	tb.Helper()
	var format *store.FormatError
	require.ErrorAs(tb, err, &format)
	require.ErrorIs(tb, err, kind)
	require.Contains(tb, err.Error(), reason)
	require.True(tb, strings.HasSuffix(format.Path, ".gguf"), "path %q", format.Path)
	require.NotEmpty(tb, format.Field)
	require.False(tb, errors.Is(err, store.ErrFormat) && errors.Is(err, store.ErrUnsupported), "an error has one kind")
}
