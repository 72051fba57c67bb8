package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/llmrun/llmrun/store/vfs"
)

// Where a Model is from.
const (
	SourcePulled      = "llmrun"
	SourceOllama      = "ollama"
	SourceLMStudio    = "lmstudio"
	SourceHuggingFace = "huggingface"
)

// A Model is a model on this machine.
type Model struct {
	Name   string `json:"name"`
	Path   string `json:"path"` // what to open
	Bytes  int64  `json:"bytes"`
	Source string `json:"source"`         // the program that stored it
	From   string `json:"from,omitempty"` // the reference that was pulled
}

// Places are the directories in which models are found.
type Places struct {
	FS       vfs.FS
	Pulled   string   // of llmrun
	Ollama   []string // each with manifests and blobs
	LMStudio []string // each with PUBLISHER/REPO/FILE.gguf
	Hub      string   // the Hugging Face cache
}

// DefaultPlaces returns the directories that the programs use without other settings, or with those of the environment.
// home is the user's directory.
func DefaultPlaces(getenv func(string) string, home string) Places {
	first := func(paths ...string) string {
		for _, p := range paths {
			if p != "" {
				return p
			}
		}
		return ""
	}
	below := func(variable string, elements ...string) string {
		if base := getenv(variable); base != "" {
			return filepath.Join(append([]string{base}, elements...)...)
		}
		return ""
	}
	at := func(elements ...string) string { return filepath.Join(append([]string{home}, elements...)...) }
	p := Places{FS: vfs.OS()}
	data := at(".local", "share", "llmrun", "models")
	switch runtime.GOOS {
	case "darwin":
		data = at("Library", "Application Support", "llmrun", "models")
	case "windows":
		data = first(below("LocalAppData", "llmrun", "models"), at("AppData", "Local", "llmrun", "models"))
	}
	p.Pulled = first(getenv("LLMRUN_MODELS"), below("XDG_DATA_HOME", "llmrun", "models"), data)
	p.Ollama = []string{first(getenv("OLLAMA_MODELS"), at(".ollama", "models"))}
	if getenv("OLLAMA_MODELS") == "" && runtime.GOOS == "linux" {
		p.Ollama = append(p.Ollama, "/usr/share/ollama/.ollama/models") // of its service
	}
	p.LMStudio = []string{at(".lmstudio", "models"), at(".cache", "lm-studio", "models")}
	p.Hub = first(getenv("HF_HUB_CACHE"), below("HF_HOME", "hub"), below("XDG_CACHE_HOME", "huggingface", "hub"), at(".cache", "huggingface", "hub"))
	return p
}

// Store returns the models that were pulled.
func (p Places) Store() *Store { return &Store{FS: vfs.OSOwn(), Dir: p.Pulled} }

// Models lists all models, those that were pulled first, by name. What cannot be read of other programs is left out.
func (p Places) Models() ([]Model, error) {
	store := Store{FS: p.FS, Dir: p.Pulled}
	models, _, err := store.Models()
	for _, dir := range p.Ollama {
		models = append(models, p.ollama(dir)...)
	}
	for _, dir := range p.LMStudio {
		models = append(models, p.scan(dir, SourceLMStudio, 3)...)
	}
	return append(models, p.hub()...), err
}

// maxManifest limits the size of a manifest.
const maxManifest = 4 << 20

// ollama lists what ollama has stored: a manifest for each tag, whose layers are blobs.
func (p Places) ollama(dir string) (models []Model) {
	seen := map[string]bool{}
	for _, manifests := range []string{"manifest-v2", "manifests"} {
		p.walk(vfs.Join(dir, manifests), 4, func(file string, elements []string) {
			if len(elements) != 4 {
				return
			}
			data, err := vfs.ReadFile(p.FS, file, maxManifest)
			var manifest ollamaManifest
			if err != nil || json.Unmarshal(data, &manifest) != nil {
				return
			}
			layer, err := manifest.model()
			if err != nil {
				return
			}
			blob := vfs.Join(dir, "blobs/"+strings.ReplaceAll(layer.Digest, ":", "-"))
			info, err := p.FS.Stat(blob)
			name := localOllamaName(elements)
			if err != nil || info.IsDir || info.Size != layer.Size || seen[name] {
				return
			}
			seen[name] = true
			models = append(models, Model{Name: name, Path: blob, Bytes: info.Size, Source: SourceOllama})
		})
	}
	slices.SortFunc(models, func(a, b Model) int { return strings.Compare(a.Name, b.Name) })
	return models
}

// localOllamaName returns ollama's name of a model: HOST/NAMESPACE/NAME:TAG without the usual host and namespace.
func localOllamaName(elements []string) string {
	host, space, name := elements[0], elements[1], elements[2]+":"+elements[3]
	if host != ollamaHost && host != "ollama.com" {
		return path.Join(host, space, name)
	}
	if space != ollamaSpace {
		return space + "/" + name
	}
	return name
}

// maxEntries limits how many entries are looked at below a directory of another program.
const maxEntries = 100_000

// walk calls visit with the files at most depth directories below dir, and their elements below it.
func (p Places) walk(dir string, depth int, visit func(file string, elements []string)) {
	left := maxEntries
	var descend func(dir string, above []string)
	descend = func(dir string, above []string) {
		entries, err := p.FS.ReadDir(dir)
		if err != nil {
			return
		}
		for _, e := range entries {
			if left--; left < 0 {
				return
			}
			full := vfs.Join(dir, e.Name)
			info, err := p.FS.Stat(full) // follows links
			if err != nil {
				continue
			}
			elements := append(slices.Clone(above), e.Name)
			switch {
			case !info.IsDir:
				visit(full, elements)
			case len(elements) < depth:
				descend(full, elements)
			}
		}
	}
	descend(dir, nil)
}

// scan lists the GGUF models and the safetensors directories below a directory.
func (p Places) scan(dir, source string, depth int) (models []Model) {
	byPath := map[string]int{} // index of the model of a split file, or of a directory
	directories := map[string]bool{}
	p.walk(dir, depth, func(file string, elements []string) {
		info, err := p.FS.Stat(file)
		if err != nil {
			return
		}
		base := path.Base(file)
		lower := strings.ToLower(base)
		switch {
		case strings.HasSuffix(base, ".gguf") && !strings.Contains(lower, "mmproj") && !strings.Contains(lower, "imatrix"):
			whole := vfs.Join(path.Dir(file), stem(base))
			if i, ok := byPath[whole]; ok {
				models[i].Bytes += info.Size
				return
			}
			byPath[whole] = len(models)
			models = append(models, Model{Name: stem(base), Path: file, Bytes: info.Size, Source: source})
		case base == configFile && len(elements) > 1:
			directories[path.Dir(file)] = true
		}
	})
	for _, at := range slices.Sorted(maps.Keys(directories)) {
		if bytes, ok := p.weights(at); ok {
			name := strings.TrimPrefix(strings.TrimPrefix(at, dir), "/")
			models = append(models, Model{Name: name, Path: at, Bytes: bytes, Source: source})
		}
	}
	return models
}

// weights returns the size of the safetensors weights in a directory. ok is false without any that can be opened.
func (p Places) weights(dir string) (bytes int64, ok bool) {
	entries, err := p.FS.ReadDir(dir)
	if err != nil {
		return 0, false
	}
	for _, e := range entries {
		if e.Name == safetensorsFile || e.Name == indexFile {
			ok = true
		}
		if e.Name == safetensorsFile || shardName.MatchString(e.Name) {
			if info, err := p.FS.Stat(vfs.Join(dir, e.Name)); err == nil {
				bytes += info.Size
			}
		}
	}
	return bytes, ok
}

// hub lists the Hugging Face cache: the files of the commit that main means, in each repository.
func (p Places) hub() (models []Model) {
	repos, err := p.FS.ReadDir(p.Hub)
	if err != nil {
		return nil
	}
	for _, e := range repos {
		repo, isModel := strings.CutPrefix(e.Name, "models--")
		if !isModel {
			continue
		}
		repo = strings.ReplaceAll(repo, "--", "/")
		snapshot, ok := p.snapshot(vfs.Join(p.Hub, e.Name))
		if !ok {
			continue
		}
		models = append(models, p.scan(snapshot, SourceHuggingFace, 3)...)
		if _, err := p.FS.Stat(vfs.Join(snapshot, configFile)); err == nil {
			if bytes, ok := p.weights(snapshot); ok {
				models = append(models, Model{Name: repo, Path: snapshot, Bytes: bytes, Source: SourceHuggingFace})
			}
		}
	}
	return models
}

// snapshot returns the directory of the commit that main means, or of the only one there is.
func (p Places) snapshot(repo string) (string, bool) {
	if data, err := vfs.ReadFile(p.FS, vfs.Join(repo, "refs/main"), 1<<10); err == nil {
		commit := strings.TrimSpace(string(data))
		at := vfs.Join(repo, "snapshots/"+commit)
		if info, err := p.FS.Stat(at); CheckName(commit) == nil && err == nil && info.IsDir {
			return at, true
		}
	}
	entries, err := p.FS.ReadDir(vfs.Join(repo, "snapshots"))
	if err != nil || len(entries) != 1 {
		return "", false
	}
	return vfs.Join(repo, "snapshots/"+entries[0].Name), true
}

// ErrAmbiguous reports a name that several models have.
var ErrAmbiguous = errors.New("several models have that name")

// Find returns the model with a name: that of a file without its ending, of ollama with or without ":latest", of a
// repository, or the reference that was pulled. Models that were pulled come first, then those of ollama, LM Studio and
// the Hugging Face cache. It returns ErrNoModel without any.
func (p Places) Find(name string) (Model, error) {
	models, err := p.Models()
	for _, equal := range []func(a, b string) bool{func(a, b string) bool { return a == b }, strings.EqualFold} {
		for _, source := range []string{SourcePulled, SourceOllama, SourceLMStudio, SourceHuggingFace} {
			var found []Model
			for _, m := range models {
				if m.Source == source && m.answersTo(name, equal) {
					found = append(found, m)
				}
			}
			found = slices.CompactFunc(found, func(a, b Model) bool { return a.Name == b.Name && a.Bytes == b.Bytes }) // a directory that is linked twice
			switch {
			case len(found) == 1:
				return found[0], nil
			case len(found) > 1:
				var paths []string
				for _, m := range found {
					paths = append(paths, m.Path)
				}
				return Model{}, fmt.Errorf("%s: %w; give the path of one: %s", name, ErrAmbiguous, strings.Join(paths, ", "))
			}
		}
	}
	return Model{}, errors.Join(fmt.Errorf("%s: %w", name, ErrNoModel), err)
}

// answersTo reports whether a name means the model.
func (m *Model) answersTo(name string, equal func(a, b string) bool) bool {
	for _, suffix := range []string{"", ".gguf", ":" + ollamaTag} {
		if rest, ok := strings.CutSuffix(name, suffix); ok && equal(m.Name, rest) {
			return true
		}
	}
	switch m.Source {
	case SourcePulled:
		return equal(m.From, name)
	case SourceOllama:
		return equal(m.Name, name+":"+ollamaTag) || equal(schemeOllama+":"+m.Name, name) || equal(schemeOllama+":"+m.Name, name+":"+ollamaTag)
	}
	return false
}
