package modelfile

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store/vfs"
)

// TestConfigurationsWithInfinity reads the tokenizer and the ends of answers beside a config.json of Mamba-2, which has a number that JSON
// does not have.
func TestConfigurationsWithInfinity(t *testing.T) {
	fsys := vfs.NewMem()
	require.NoError(t, fsys.MkdirAll("m"))
	for name, text := range map[string]string{
		"config.json":    `{"time_step_limit": [0.0, Infinity], "eos_token_id": 1}`,
		"tokenizer.json": `{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}, "decoder": {"type": "ByteLevel"}}`,
	} {
		require.NoError(t, vfs.WriteFile(fsys, "m/"+name, []byte(text)))
	}
	tok, err := tokenizerIn(fsys, "m", "tokenizer.json")
	require.NoError(t, err)
	require.Contains(t, tok.EOS(), int32(1))
	ends, err := (&Files{FS: fsys, dir: "m"}).EndIDs(nil)
	require.NoError(t, err)
	require.Equal(t, []int32{1}, ends)
}
