package hub_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/hub"
	"github.com/llmrun/llmrun/internal/testutil/hubserver"
	"github.com/llmrun/llmrun/store/vfs"
)

// machine is a home directory with models of other programs.
type machine struct {
	t      *testing.T
	home   string
	places hub.Places
}

func newMachine(t *testing.T, variables ...string) *machine {
	m := &machine{t: t, home: t.TempDir()}
	m.places = hub.DefaultPlaces(func(name string) string {
		for _, v := range variables {
			if value, ok := strings.CutPrefix(v, name+"="); ok {
				return strings.ReplaceAll(value, "HOME", m.home)
			}
		}
		return ""
	}, m.home)
	return m
}

// write writes a file below the home directory, and returns its path.
func (m *machine) write(name string, data []byte) string {
	m.t.Helper()
	full := filepath.Join(m.home, filepath.FromSlash(name))
	require.NoError(m.t, os.MkdirAll(filepath.Dir(full), 0o700))
	require.NoError(m.t, os.WriteFile(full, data, 0o600))
	return full
}

// ollama stores a model as ollama does.
func (m *machine) ollama(dir, tag string, data []byte) string {
	digest := hubserver.SHA256(data)
	m.write(dir+"/manifests/"+tag, fmt.Appendf(nil, `{"layers":[{"mediaType":"application/vnd.ollama.image.template","digest":"sha256:11","size":1},
{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:%s","size":%d}]}`, digest, len(data)))
	return m.write(dir+"/blobs/sha256-"+digest, data)
}

// link makes a symbolic link, or skips the test where there are none.
func (m *machine) link(target, name string) {
	m.t.Helper()
	full := filepath.Join(m.home, filepath.FromSlash(name))
	require.NoError(m.t, os.MkdirAll(filepath.Dir(full), 0o700))
	if err := os.Symlink(target, full); err != nil {
		m.t.Skipf("no symbolic links here: %v", err)
	}
}

// found returns the path of a model by name, as a path below the home directory.
func (m *machine) found(name string) string {
	m.t.Helper()
	model, err := m.places.Find(name)
	require.NoError(m.t, err, name)
	rel, err := filepath.Rel(m.home, filepath.FromSlash(model.Path))
	require.NoError(m.t, err)
	return filepath.ToSlash(rel)
}

// TestModelsOfOllama reads manifests with and without namespace, host and link, and leaves out what cannot be opened.
func TestModelsOfOllama(t *testing.T) {
	m := newMachine(t)
	dir := ".ollama/models"
	blob := m.ollama(dir, "registry.ollama.ai/library/llama3.2/latest", []byte("GGUF one"))
	m.ollama(dir, "registry.ollama.ai/library/llama3.2/1b", []byte("GGUF two!"))
	m.ollama(dir, "registry.ollama.ai/me/tuned/latest", []byte("GGUF three"))
	m.ollama(dir, "hf.co/bartowski/Fox-GGUF/Q4_0", []byte("GGUF four"))
	m.write(dir+"/manifests/registry.ollama.ai/library/broken/latest", []byte("{"))
	m.write(dir+"/manifests/registry.ollama.ai/library/gone/latest", []byte(`{"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:`+strings.Repeat("0", 64)+`","size":3}]}`))
	m.write(dir+"/manifests/registry.ollama.ai/library/evil/latest", []byte(`{"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:../../x","size":3}]}`))
	require.NoError(t, os.Truncate(m.ollama(dir, "registry.ollama.ai/library/half/latest", []byte("GGUF five")), 4))
	m.write(dir+"/stored", []byte(`{"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:`+hubserver.SHA256([]byte("GGUF one"))+`","size":8}]}`))
	m.link(filepath.Join(m.home, filepath.FromSlash(dir), "stored"), dir+"/manifest-v2/ollama.com/library/newer/latest")
	models, err := m.places.Models()
	require.NoError(t, err)
	var names []string
	for _, model := range models {
		require.Equal(t, hub.SourceOllama, model.Source)
		names = append(names, model.Name)
	}
	require.Equal(t, []string{"hf.co/bartowski/Fox-GGUF:Q4_0", "llama3.2:1b", "llama3.2:latest", "me/tuned:latest", "newer:latest"}, names)
	for _, name := range []string{"llama3.2", "llama3.2:latest", "ollama:llama3.2", "LLAMA3.2"} {
		model, err := m.places.Find(name)
		require.NoError(t, err)
		require.Equal(t, hub.Model{Name: "llama3.2:latest", Path: filepath.ToSlash(blob), Bytes: 8, Source: hub.SourceOllama}, withSlashes(model))
	}
	_, err = m.places.Find("llama3")
	require.ErrorIs(t, err, hub.ErrNoModel)
	_, err = m.places.Store().Remove("llama3.2:1b")
	require.Error(t, err)

	moved := newMachine(t, "OLLAMA_MODELS=HOME/elsewhere")
	moved.ollama("elsewhere", "registry.ollama.ai/library/fox/2b", []byte("GGUF"))
	require.Equal(t, "elsewhere/blobs/sha256-"+hubserver.SHA256([]byte("GGUF")), moved.found("fox:2b"))
}

// withSlashes returns a model with slashes in its path.
func withSlashes(m hub.Model) hub.Model {
	m.Path = filepath.ToSlash(m.Path)
	return m
}

// TestModelsOfLMStudio finds files, the parts of split ones, and directories of safetensors.
func TestModelsOfLMStudio(t *testing.T) {
	m := newMachine(t)
	dir := ".lmstudio/models/"
	m.write(dir+"pub/Fox-GGUF/Fox-Q4_0.gguf", []byte("GGUF 1"))
	m.write(dir+"pub/Fox-GGUF/mmproj-Fox.gguf", []byte("GGUF 2"))
	m.write(dir+"pub/Big/Big-00001-of-00002.gguf", []byte("GGUF 3"))
	m.write(dir+"pub/Big/Big-00002-of-00002.gguf", []byte("GGUF four"))
	m.write(dir+"pub/Plain/config.json", []byte("{}"))
	m.write(dir+"pub/Plain/model.safetensors", []byte("12345"))
	m.write(dir+"pub/NoWeights/config.json", []byte("{}"))
	m.write(dir+"pub/Same/Twice-Q4_0.gguf", []byte("GGUF 5"))
	m.write(dir+"other/Same/Twice-Q4_0.gguf", []byte("GGUF 66"))
	m.write(".cache/lm-studio/models/old/Old/Old.gguf", []byte("GGUF 7"))
	require.Equal(t, dir+"pub/Fox-GGUF/Fox-Q4_0.gguf", m.found("Fox-Q4_0"))
	require.Equal(t, dir+"pub/Fox-GGUF/Fox-Q4_0.gguf", m.found("fox-q4_0.gguf"))
	require.Equal(t, dir+"pub/Big/Big-00001-of-00002.gguf", m.found("Big"))
	require.Equal(t, dir+"pub/Plain", m.found("pub/Plain"))
	require.Equal(t, ".cache/lm-studio/models/old/Old/Old.gguf", m.found("Old"))
	_, err := m.places.Find("Twice-Q4_0")
	require.ErrorIs(t, err, hub.ErrAmbiguous)
	require.ErrorContains(t, err, "give the path of one: ")
	models, err := m.places.Models()
	require.NoError(t, err)
	require.Len(t, models, 6)
	for _, model := range models {
		require.Equal(t, hub.SourceLMStudio, model.Source)
		if model.Name == "Big" {
			require.Equal(t, int64(15), model.Bytes)
		}
	}
}

// TestModelsOfTheHub reads the Hugging Face cache, whose files are links to blobs, in the commit that main means.
func TestModelsOfTheHub(t *testing.T) {
	m := newMachine(t, "HF_HOME=HOME/hf")
	for _, repo := range []string{"models--o--Fox-GGUF", "models--o--Plain", "models--o--Two", "datasets--o--Text"} {
		m.write("hf/hub/"+repo+"/blobs/x", []byte("GGUF"))
	}
	fox, plain, two := "hf/hub/models--o--Fox-GGUF/", "hf/hub/models--o--Plain/", "hf/hub/models--o--Two/"
	m.write(fox+"refs/main", []byte("aaaa"))
	m.link("../../blobs/x", fox+"snapshots/aaaa/Fox-Q8_0.gguf")
	m.link("../../blobs/x", fox+"snapshots/bbbb/Old-Q8_0.gguf")
	m.link("../../blobs/gone", fox+"snapshots/aaaa/Gone.gguf")
	m.link("../../blobs/x", plain+"snapshots/cccc/config.json")
	m.link("../../blobs/x", plain+"snapshots/cccc/model-00001-of-00001.safetensors")
	m.link("../../blobs/x", plain+"snapshots/cccc/model.safetensors.index.json")
	m.write(two+"refs/main", []byte("../../../..\n"))
	m.link("../../blobs/x", two+"snapshots/a/X.gguf")
	m.link("../../blobs/x", two+"snapshots/b/X.gguf")
	m.link("../../blobs/x", "hf/hub/datasets--o--Text/snapshots/a/Y.gguf")
	require.Equal(t, fox+"snapshots/aaaa/Fox-Q8_0.gguf", m.found("Fox-Q8_0"))
	require.Equal(t, plain+"snapshots/cccc", m.found("o/Plain"))
	models, err := m.places.Models()
	require.NoError(t, err)
	require.Len(t, models, 2)
	for name, base := range map[string]string{"HF_HUB_CACHE=HOME/c": "c", "XDG_CACHE_HOME=HOME/x": "x/huggingface/hub", "": ".cache/huggingface/hub"} {
		m := newMachine(t, name)
		m.write(base+"/models--o--Fox-GGUF/snapshots/aaaa/Fox.gguf", []byte("GGUF"))
		require.Equal(t, base+"/models--o--Fox-GGUF/snapshots/aaaa/Fox.gguf", m.found("Fox"))
	}
}

// TestPulledModelsComeFirst finds a model in the order of the programs, and reports damaged records beside the others.
func TestPulledModelsComeFirst(t *testing.T) {
	m := newMachine(t, "XDG_DATA_HOME=HOME/data")
	m.ollama(".ollama/models", "registry.ollama.ai/library/fox/latest", []byte("GGUF 1"))
	m.write(".lmstudio/models/p/r/fox.gguf", []byte("GGUF 2"))
	require.Contains(t, m.found("fox"), ".ollama")
	m.write("data/llmrun/models/fox.gguf", []byte("GGUF 3"))
	require.Contains(t, m.found("fox"), ".ollama") // without a record it is no model
	m.write("data/llmrun/models/fox.model.json", []byte(`{"name":"fox","source":"hf:o/fox","path":"fox.gguf","files":[{"path":"fox.gguf","size":6}]}`))
	require.Equal(t, "data/llmrun/models/fox.gguf", m.found("fox"))
	require.Equal(t, "data/llmrun/models/fox.gguf", m.found("hf:o/fox"))

	for name, text := range map[string]string{
		"bad": `{`, "up": `{"name":"up","path":"../x","files":[]}`, "files": `{"name":"files","path":"files","files":[{"path":"/etc/x"}]}`,
		"other": `{"name":"fox","path":"fox.gguf"}`, "gone": `{"name":"gone","path":"gone.gguf"}`,
	} {
		m.write("data/llmrun/models/"+name+".model.json", []byte(text))
	}
	models, err := m.places.Models()
	require.Len(t, models, 3)
	for _, name := range []string{"bad.model.json", "up.model.json", "files.model.json", "other.model.json", "gone"} {
		require.ErrorContains(t, err, name)
	}
	_, err = m.places.Store().Remove("up")
	require.ErrorIs(t, err, hub.ErrName)
	require.Equal(t, filepath.ToSlash(filepath.Join(m.home, "elsewhere")), filepath.ToSlash(newMachineAt(m.home, "LLMRUN_MODELS").Pulled))
}

// newMachineAt returns the places with a variable set to HOME/elsewhere.
func newMachineAt(home, variable string) hub.Places {
	return hub.DefaultPlaces(func(name string) string {
		if name == variable {
			return filepath.Join(home, "elsewhere")
		}
		return ""
	}, home)
}

// TestSameFilesFromAnotherName takes files of the same hashes for the same model, whatever they were called, also when
// they were replaced by a pack.
func TestSameFilesFromAnotherName(t *testing.T) {
	b := newBench(t)
	b.server.AddRepo("o/m", map[string][]byte{"m-Q4_0.gguf": hubserver.Content(fileBytes, 1)})
	_, err := b.pull("hf:o/m")
	require.NoError(t, err)
	model, err := b.pull("hf:o/m:Q4_0")
	require.NoError(t, err)
	require.Equal(t, "hf:o/m", model.From)
	require.NoError(t, vfs.WriteFile(b.store.FS, "models/m-Q4_0.pack", []byte("packed")))
	_, err = b.store.Replace("m-Q4_0", "m-Q4_0.pack")
	require.NoError(t, err)
	model, err = b.pull("hf:o/m:q4_0")
	require.NoError(t, err)
	require.Equal(t, "models/m-Q4_0.pack", model.Path)
	b.server.AddRepo("o/m", map[string][]byte{"m-Q4_0.gguf": hubserver.Content(fileBytes, 2)})
	_, err = b.pull("hf:o/m")
	require.ErrorContains(t, err, "m-Q4_0 is there already, but hf:o/m has other files now; llmrun models rm m-Q4_0 deletes it")
}

// TestEndpoints refuses servers that cannot be asked.
func TestEndpoints(t *testing.T) {
	for _, endpoint := range []string{"huggingface.co", "ftp://x", "://", "http://"} {
		b := newBench(t)
		b.client.Endpoint = endpoint
		_, err := b.tryFind("hf:o/m")
		require.ErrorIs(t, err, hub.ErrReference)
		require.ErrorContains(t, err, "HF_ENDPOINT")
	}
	c := hub.FromEnvironment(func(name string) string {
		return map[string]string{"HF_TOKEN": "t\n", "HF_ENDPOINT": "http://x/ "}[name]
	})
	require.Equal(t, "t", c.Token)
	require.Equal(t, "http://x/", c.Endpoint)
}
