package llmrun_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/internal/testutil/hubmodel"
)

// TestHeadersAreReserved opens models whose headers, tables or configuration do not fit into
// the budget. Each is refused before it is read into memory, and the error names the file and
// the bytes.
func TestHeadersAreReserved(t *testing.T) {
	config := string(testutil.Must(os.ReadFile(filepath.Join(hubmodel.Dir(testutil.Root(t)), "config.json"))))
	for _, c := range []struct {
		name, file string
		files      map[string]string
	}{
		{"tensor table", "m.gguf", map[string]string{"m.gguf": ggufOf(1<<17, 0)}},
		{"keys", "m.gguf", map[string]string{"m.gguf": ggufOf(0, 1<<17)}},
		{"a long value", "m.gguf", map[string]string{"m.gguf": ggufOf(0, 0) + strings.Repeat("x", 64<<20)}},
		{"safetensors header", "model.safetensors", map[string]string{"config.json": config, "model.safetensors": safetensorsOf(60000)}},
		{"safetensors index", "model.safetensors.index.json", map[string]string{
			"config.json": config, "model.safetensors.index.json": `{"weight_map":{` + strings.Repeat(`"a":"b",`, 4<<20) + `}}`,
		}},
		{"configuration", "config.json", map[string]string{"config.json": `{"a":"` + strings.Repeat("x", 64<<20) + `"}`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range c.files {
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
			}
			c.files = nil
			runtime.GC()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := llmrun.Open(dir, llmrun.Options{Threads: 2, Memory: llmrun.MemoryOptions{RAM: 48 << 20}})
			runtime.ReadMemStats(&after)
			require.ErrorIs(t, err, llmrun.ErrBudget)
			require.ErrorContains(t, err, c.file)
			require.Regexp(t, "heap needs [0-9.]+ [KMG]iB, ", err.Error())
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(24<<20))
		})
	}
}

// ggufOf returns the header of a GGUF file with many tensors, or many keys, or one key whose
// value follows.
func ggufOf(tensors, keys int) string {
	var b strings.Builder
	number := func(v uint64) { _ = binary.Write(&b, binary.LittleEndian, v) }
	b.WriteString("GGUF\x03\x00\x00\x00")
	number(uint64(tensors))
	number(uint64(max(keys, 1)))
	text := func(s string) { number(uint64(len(s))); b.WriteString(s) }
	for i := range keys {
		text(fmt.Sprintf("key.%d", i))
		b.WriteString("\x00\x00\x00\x00\x01") // a uint8
	}
	if tensors == 0 && keys == 0 {
		text("general.name")
		b.WriteString("\x08\x00\x00\x00") // a string
		number(64 << 20)
	} else if keys == 0 {
		text("key")
		b.WriteString("\x00\x00\x00\x00\x01")
	}
	for i := range tensors {
		text(fmt.Sprintf("tensor.%d", i))
		b.WriteString("\x01\x00\x00\x00") // one dimension
		number(1)                         // of one element
		b.WriteString("\x00\x00\x00\x00") // F32
		number(uint64(i) * 32)            // offset
	}
	if tensors > 0 {
		b.WriteString(strings.Repeat("\x00", tensors*32+64))
	}
	return b.String()
}

// safetensorsOf returns a file with n tensors of a byte.
func safetensorsOf(n int) string {
	var b strings.Builder
	b.WriteString("{")
	for i := range n {
		fmt.Fprintf(&b, `"t%d":{"dtype":"U8","shape":[1],"data_offsets":[%d,%d]},`, i, i, i+1)
	}
	header := strings.TrimSuffix(b.String(), ",") + "}"
	return string(binary.LittleEndian.AppendUint64(nil, uint64(len(header)))) + header + strings.Repeat("\x00", n)
}
