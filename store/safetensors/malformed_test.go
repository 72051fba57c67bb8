package safetensors

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/bound"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// file returns a header followed by n bytes of data.
func file(header string, n int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, n)...)
}

// sized returns a file with an arbitrary length field.
func sized(length uint64, rest string) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, length), rest...)
}

// one returns a header with a single tensor.
func one(dtype, shape, offsets string) string {
	return fmt.Sprintf(`{"a":{"dtype":%q,"shape":%s,"data_offsets":%s}}`, dtype, shape, offsets)
}

// openBytes opens data as a file and checks the memory bound that holds for every parser.
func openBytes(tb testing.TB, data []byte) (d *Dir, err error) {
	tb.Helper()
	fsys := vfs.FromIOFS(fstest.MapFS{"m.safetensors": {Data: data}})
	bound.Check(tb, len(data), func() { d, err = Open(fsys, "m.safetensors") })
	return d, err
}

// requireRejected asserts that err is a format error of the given kind that names the file
// and contains the reason.
func requireRejected(tb testing.TB, err, kind error, reason string) {
	tb.Helper()
	var format *store.FormatError
	require.ErrorAs(tb, err, &format)
	require.ErrorIs(tb, err, kind)
	require.Contains(tb, err.Error(), reason)
	require.Contains(tb, format.Path, ".safetensors")
	require.NotEmpty(tb, format.Field)
}

// TestOpenRejectsMalformedHeaders opens one tiny file for each error that a header can
// contain and checks the reason.
func TestOpenRejectsMalformedHeaders(t *testing.T) {
	malformed, truncated, unsupported := store.ErrFormat, store.ErrTruncated, store.ErrUnsupported
	const a = `"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}`
	cases := []struct {
		name   string
		file   []byte
		kind   error
		reason string
	}{
		{"empty file", nil, truncated, "the file has only 0 bytes"},
		{"seven bytes", make([]byte, 7), truncated, "the file has only 7 bytes"},
		{"header of 2^63 bytes", sized(1<<63, "{}"), malformed, "at most 100000000"},
		{"header over 100 MB", sized(100_000_001, "{}"), malformed, "100000001 bytes; at most"},
		{"header longer than the file", sized(3, "{}"), truncated, "3 bytes, but the file has 2 left"},
		{"header of no bytes", sized(0, "{}"), malformed, "does not begin with '{'"},

		{"invalid UTF-8", file("{\"a\xff\":{}}", 0), malformed, "not valid UTF-8"},
		{"null", file("null", 0), malformed, "does not begin with '{'"},
		{"list", file("[]", 0), malformed, "does not begin with '{'"},
		{"leading space", file(" {}", 0), malformed, "does not begin with '{'"},
		{"bytes after the brace", file("{}x", 0), malformed, `'x' after the closing brace`},
		{"newline after the brace", file("{}\n", 0), malformed, "only spaces may follow"},
		{"20000 lists deep", file(`{"a":`+strings.Repeat("[", 20000), 0), malformed, `'[' where '{' is expected`},
		{"20000 objects deep", file(strings.Repeat(`{"a":`, 20000), 0), malformed, "unknown field"},
		{"header cut off", file(`{"a":{"dtype":"F32"`, 0), malformed, "the end where"},
		{"trailing comma", file(`{`+a+`,}`, 4), malformed, `'}' where '"' is expected`},
		{"missing comma", file(`{`+a+a+`}`, 4), malformed, `'"' where ',' is expected`},
		{"string cut off", file(`{"a`, 0), malformed, "a string does not end"},
		{"control character", file("{\"a\n\":{}}", 0), malformed, "control character 0xa"},
		{"unknown escape", file(`{"\x":{}}`, 0), malformed, `unknown escape \x`},
		{"half a surrogate pair", file(`{"\ud800":{}}`, 0), malformed, "half a surrogate pair"},
		{"escape cut off", file(`{"\`, 0), malformed, "a string does not end"},
		{"escape of bad digits", file(`{"\u12g4":{}}`, 0), malformed, "not a hexadecimal digit"},
		{"metadata of numbers", file(`{"__metadata__":{"a":1}}`, 0), malformed, `'1' where '"' is expected`},
		{"metadata null", file(`{"__metadata__":null}`, 0), malformed, `'n' where '{' is expected`},
		{"metadata twice", file(`{"__metadata__":{},"__metadata__":{}}`, 0), malformed, "occurs twice"},

		{"tensor twice", file(`{`+a+`,`+a+`}`, 4), malformed, `"a" occurs twice`},
		{"tensor twice by an escape", file(`{`+a+`,`+strings.Replace(a, `"a"`, `"\u0061"`, 1)+`}`, 4), malformed, `"a" occurs twice`},
		{"DTYPE", file(`{"a":{"DTYPE":"F32","shape":[1],"data_offsets":[0,4]}}`, 4), malformed, `unknown field "DTYPE"`},
		{"dtype twice", file(`{"a":{"dtype":"F32","dtype":"F16","shape":[1],"data_offsets":[0,4]}}`, 4), malformed, "dtype occurs twice"},
		{"dtype missing", file(`{"a":{"shape":[1],"data_offsets":[0,4]}}`, 4), malformed, "are all required"},
		{"dtype a number", file(`{"a":{"dtype":1,"shape":[1],"data_offsets":[0,4]}}`, 4), malformed, `'1' where '"' is expected`},
		{"dtype unknown", file(one("F33", "[1]", "[0,4]"), 4), unsupported, `unknown dtype "F33"`},
		{"dtype in small letters", file(one("f32", "[1]", "[0,4]"), 4), unsupported, `unknown dtype "f32"`},
		{"dtype that is not read", file(one("F8_E4M3", "[4]", "[0,4]"), 4), unsupported, "F8_E4M3 is not supported"},
		{"tensor without name", file(`{"":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4), malformed, "the name is empty"},
		{"tensor name with ../", file(`{"../a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4), malformed, "path out of its directory"},

		{"one offset", file(one("F32", "[1]", "[4]"), 4), malformed, "1 numbers instead of 2"},
		{"three offsets", file(one("F32", "[1]", "[0,4,4]"), 4), malformed, "more than 2 numbers"},
		{"negative offset", file(one("F32", "[1]", "[-4,0]"), 4), malformed, `'-' where a non-negative integer`},
		{"descending offsets", file(one("F32", "[1]", "[4,0]"), 4), malformed, "not ascending"},
		{"overlap", file(`{`+a+`,"b":{"dtype":"F16","shape":[2],"data_offsets":[2,6]}}`, 6), malformed, `tensor "b": its bytes from 2 overlap`},
		{"hole", file(`{`+a+`,"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}`, 12), malformed, `tensor "b": 4 bytes before it belong to no tensor`},
		{"hole at the start", file(one("F32", "[1]", "[4,8]"), 8), malformed, "4 bytes before it"},
		{"bytes after the last tensor", file(one("F32", "[1]", "[0,4]"), 5), malformed, "1 bytes after the last tensor"},
		{"data one byte short", file(one("F32", "[1]", "[0,4]"), 3), truncated, "has 3 bytes, but the header describes 4"},

		{"shape and length differ", file(one("F32", "[2]", "[0,4]"), 4), malformed, "takes 8 bytes, but data_offsets span 4"},
		{"shape that overflows", file(one("F32", "[4294967296,4294967296]", "[0,0]"), 0), malformed, "overflows or is not a whole number of bytes"},
		{"shape that wraps to the length", file(one("F32", "[4611686018427387905]", "[0,4]"), 4), malformed, "overflows or is not a whole number of bytes"},
		{"shape 1e3", file(one("F32", "[1e3]", "[0,4000]"), 4000), malformed, "not a plain integer"},
		{"shape 1.0", file(one("F32", "[1.0]", "[0,4]"), 4), malformed, "not a plain integer"},
		{"shape -1", file(one("F32", "[-1]", "[0,4]"), 4), malformed, "non-negative integer"},
		{"shape 01", file(one("F32", "[01]", "[0,4]"), 4), malformed, "a number begins with 0"},
		{"shape 2^63", file(one("F32", "[9223372036854775808]", "[0,4]"), 4), malformed, "a number is too large"},
		{"shape a string", file(one("F32", `["1"]`, "[0,4]"), 4), malformed, "non-negative integer"},
		{"shape null", file(one("F32", "null", "[0,4]"), 4), malformed, `'n' where '[' is expected`},
		{"nine dimensions", file(one("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4), malformed, "more than 8 dimensions"},
		{"half bytes", file(one("F4", "[3]", "[0,1]"), 1), malformed, "not a whole number of bytes"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := openBytes(t, c.file)
			requireRejected(t, err, c.kind, c.reason)
		})
	}
}

// TestManyTensorsOnOneRegion opens a header that describes more data than the file has: the
// reader must find the overlap without comparing all pairs.
func TestManyTensorsOnOneRegion(t *testing.T) {
	var b strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&b, `,"%d":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}`, i)
	}
	_, err := openBytes(t, file("{"+b.String()[1:]+"}", 4))
	requireRejected(t, err, store.ErrFormat, "overlap")
}

// TestDenseHeaderStaysInBounds opens a header that consists of the smallest possible
// records. openBytes checks the memory bound.
func TestDenseHeaderStaysInBounds(t *testing.T) {
	const n = 100_000
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"%x":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}`, i)
	}
	d, err := openBytes(t, file("{"+b.String()[1:]+"}", 0))
	require.NoError(t, err)
	require.Len(t, d.Tensors(), n)
}

// TestEveryTruncationFails checks that Open rejects a file that is truncated at any byte.
func TestEveryTruncationFails(t *testing.T) {
	fsys := vfs.NewMem()
	require.NoError(t, Write(fsys, "m.safetensors", sample()))
	whole, err := vfs.ReadFile(fsys, "m.safetensors", 1<<20)
	require.NoError(t, err)
	_, err = openBytes(t, whole)
	require.NoError(t, err)
	for n := range len(whole) {
		_, err := openBytes(t, whole[:n])
		require.ErrorIs(t, err, store.ErrTruncated, "truncated to %d of %d bytes", n, len(whole))
	}
}
