package archtest

import (
	"slices"
	"strings"
	"testing"
)

// A rule lists what one package imports besides the standard library.
type rule struct {
	dir      string
	imports  []string // packages of this module, exactly
	external []string // other modules, by import path prefix
}

// rules lists all packages from the bottom up: a package imports only packages above its own line.
// Each line lists the imports exactly. Reviewers therefore see each new import, also between
// packages of one tree, and the table has no unused entries.
var rules = []rule{
	{dir: "internal/bound"},
	{dir: "internal/build"},
	{dir: "internal/cli", external: []string{"golang.org/x/term"}},
	{dir: "internal/cli/clitest", imports: []string{"internal/cli"}, external: []string{"github.com/stretchr/testify"}},
	{dir: "internal/plot"},
	{dir: "internal/testreport"},
	{dir: "internal/testutil", external: []string{"github.com/rogpeppe/go-internal"}},
	{dir: "internal/trace"},
	{dir: "lab/schedule"},
	{dir: "quant", external: []string{"golang.org/x/sys"}},
	{dir: "quant/internal/asmgen"},
	{dir: "store/gcm", external: []string{"golang.org/x/sys"}},
	{dir: "store/vfs", imports: []string{"store/gcm"}, external: []string{"github.com/edsrzf/mmap-go", "golang.org/x/sys"}},
	{dir: "cmd/llmrun/bundled", imports: []string{"store/vfs"}},
	{dir: "text/channel"},
	{dir: "text/jinja"},
	{dir: "tiering", external: []string{"golang.org/x/sys"}},
	{dir: "hetero", imports: []string{"quant", "tiering"}},
	{dir: "internal/testutil/failing", imports: []string{"internal/testutil", "store/vfs", "tiering"}},
	{dir: "internal/threadpool", imports: []string{"tiering"}, external: []string{"golang.org/x/sys"}},
	{dir: "prefetch", imports: []string{"store/vfs"}},
	{dir: "quant/limits", imports: []string{"quant"}, external: []string{"golang.org/x/sys"}},
	{dir: "quant/tiled", imports: []string{"quant"}, external: []string{"golang.org/x/sys"}},
	{dir: "quant/internal/kerneltable", imports: []string{"quant", "quant/tiled"}},
	{dir: "store", imports: []string{"quant", "store/vfs"}, external: []string{"github.com/cespare/xxhash/v2"}},
	{dir: "store/crc", imports: []string{"tiering"}, external: []string{"golang.org/x/sys"}},
	{dir: "text/sample", imports: []string{"quant"}},
	{dir: "hetero/cpu", imports: []string{"hetero", "internal/threadpool", "quant", "quant/tiled", "tiering"}, external: []string{"golang.org/x/sys"}},
	{dir: "hetero/onnx/graph", imports: []string{"hetero", "quant", "tiering"}},
	{dir: "hetero/opencl", imports: []string{"hetero", "internal/trace", "quant", "tiering"}, external: []string{"github.com/ebitengine/purego", "golang.org/x/sys"}},
	{dir: "hetero/rates", imports: []string{"internal/threadpool", "quant", "quant/tiled", "store/vfs", "tiering"}},
	{dir: "hetero/solve", imports: []string{"hetero", "quant", "tiering"}},
	{dir: "lab/sim", imports: []string{"hetero", "quant", "tiering"}},
	{dir: "store/allowance", imports: []string{"store", "store/vfs"}},
	{dir: "store/digest", imports: []string{"store", "store/vfs"}},
	{dir: "store/gguf", imports: []string{"quant", "store", "store/vfs"}},
	{dir: "store/pack", imports: []string{"quant", "quant/tiled", "store", "store/crc", "store/vfs"}},
	{dir: "store/safetensors", imports: []string{"quant", "store", "store/vfs"}},
	{dir: "internal/testutil/hubmodel", imports: []string{"quant", "store", "store/pack", "store/safetensors", "store/vfs"}},
	{dir: "store/w8a8", imports: []string{"quant", "store", "store/vfs"}},
	{dir: "hetero/onnx", imports: []string{"hetero", "hetero/onnx/graph", "quant", "store/vfs", "tiering"}, external: []string{"github.com/ebitengine/purego", "golang.org/x/sys"}},
	{dir: "hetero/profiles", imports: []string{"hetero", "hetero/solve", "internal/build", "store/vfs"}},
	{dir: "kv/segment", imports: []string{"store", "store/crc", "store/pack", "store/vfs"}, external: []string{"github.com/pierrec/lz4/v4"}},
	{dir: "lab/papers", imports: []string{"hetero", "hetero/solve", "lab/schedule", "lab/sim"}},
	{dir: "store/synth", imports: []string{"quant", "store", "store/gguf", "store/vfs"}},
	{dir: "text/token", imports: []string{"store", "store/gguf"}, external: []string{"golang.org/x/text"}},
	{dir: "hetero/devices", imports: []string{"hetero", "hetero/cpu", "hetero/onnx", "hetero/opencl", "internal/threadpool", "tiering"}, external: []string{"github.com/ebitengine/purego"}},
	{dir: "kv", imports: []string{"kv/segment", "prefetch", "quant", "quant/tiled", "store/crc", "store/vfs", "tiering"}},
	{dir: "exec/arch", imports: []string{"kv", "quant", "store", "store/gguf"}},
	{dir: "exec/altup", imports: []string{"quant"}},
	{dir: "exec/recurrent", imports: []string{"exec/arch", "quant", "tiering"}},
	{dir: "kv/fetch", imports: []string{"kv", "prefetch", "store/crc", "store/vfs", "tiering"}},
	{dir: "exec/modelfile", imports: []string{"exec/arch", "quant", "quant/tiled", "store", "store/digest", "store/gguf", "store/pack", "store/safetensors", "store/vfs", "text/sample", "text/token"}},
	{dir: "exec/weights", imports: []string{"exec/altup", "exec/arch", "exec/modelfile", "exec/recurrent", "hetero", "internal/threadpool", "prefetch", "quant", "quant/tiled", "store", "store/crc", "store/pack", "store/vfs", "store/w8a8", "tiering"}},
	{dir: "exec/calib", imports: []string{"exec/arch", "exec/modelfile", "exec/weights", "quant", "quant/tiled", "store", "store/vfs", "store/w8a8"}},
	{dir: "exec/draft", imports: []string{"tiering"}},
	{dir: "exec", imports: []string{"exec/altup", "exec/arch", "exec/calib", "exec/draft", "exec/modelfile", "exec/recurrent", "exec/weights", "hetero", "internal/threadpool", "internal/trace", "kv", "kv/fetch", "kv/segment", "prefetch", "quant", "quant/tiled", "store/crc", "store/pack", "store/vfs", "store/w8a8", "tiering"}},
	{dir: "exec/gpupass", imports: []string{"exec", "exec/arch", "hetero", "hetero/opencl", "internal/trace", "tiering"}},
	{dir: "internal/bench", imports: []string{"exec", "exec/modelfile", "internal/threadpool", "kv", "quant", "quant/limits", "store/synth", "store/vfs", "tiering"}},
	{dir: "exec/split", imports: []string{"exec", "exec/arch", "exec/gpupass", "exec/modelfile", "exec/weights", "hetero", "hetero/cpu", "hetero/devices", "hetero/profiles", "hetero/solve", "internal/threadpool", "internal/trace", "kv", "quant", "tiering"}},
	{dir: "internal/deviceplan", imports: []string{"exec/modelfile", "exec/weights", "hetero", "hetero/devices", "hetero/profiles", "hetero/solve", "internal/bench", "store/synth", "tiering"}},
	{dir: "internal/enginemodel", imports: []string{"exec"}},
	{dir: "internal/modelflag", imports: []string{"internal/bench", "internal/cli"}},
	{dir: ".", imports: []string{"exec", "exec/arch", "exec/calib", "exec/draft", "exec/gpupass", "exec/modelfile", "exec/split", "exec/weights", "hetero/devices", "hetero/opencl", "hetero/profiles", "hetero/rates", "internal/build", "internal/enginemodel", "internal/threadpool", "internal/trace", "kv", "kv/segment", "quant", "store", "store/allowance", "store/digest", "store/pack", "store/vfs", "store/w8a8", "text/channel", "text/jinja", "text/sample", "text/token", "tiering"}},
	{dir: "internal/bench/spec", imports: []string{".", "internal/bench"}},
	{dir: "cmd/llmrun", imports: []string{".", "cmd/llmrun/bundled", "internal/bench", "internal/bench/spec", "internal/cli", "internal/deviceplan", "internal/enginemodel", "internal/modelflag"}, external: []string{"golang.org/x/term"}},
	{dir: "lab/measure", imports: []string{".", "exec", "exec/arch", "exec/gpupass", "exec/modelfile", "exec/split", "exec/weights", "hetero", "hetero/devices", "hetero/opencl", "hetero/rates", "hetero/solve", "internal/bench", "internal/deviceplan", "internal/enginemodel", "internal/plot", "internal/threadpool", "internal/trace", "kv", "kv/segment", "lab/papers", "lab/schedule", "lab/sim", "prefetch", "quant", "store", "store/gguf", "store/pack", "store/safetensors", "store/vfs", "text/token", "tiering"}},
	{dir: "cmd/llmlab", imports: []string{".", "cmd/llmrun/bundled", "internal/build", "internal/cli", "internal/modelflag", "lab/measure"}},
	{dir: "scripts/arm64/model", imports: []string{"store/synth", "store/vfs"}},
}

// ruleFor returns the rule of a package.
func ruleFor(pkg string) (rule, bool) {
	at := slices.IndexFunc(rules, func(r rule) bool { return r.dir == pkg })
	if at < 0 {
		return rule{}, false
	}
	return rules[at], true
}

// allows reports whether the package of the rule may import a path.
func (r rule) allows(imported string) bool {
	if target, ours := room(imported); ours {
		return slices.Contains(r.imports, target)
	}
	first, _, _ := strings.Cut(imported, "/")
	if !strings.Contains(first, ".") {
		return true // the standard library has no dot in its first element
	}
	return slices.ContainsFunc(r.external, func(prefix string) bool { return below(imported, prefix) })
}

func TestImportDirections(t *testing.T) {
	used := map[string]map[string]bool{}
	for _, file := range goFiles(t) {
		if file.test {
			continue // tests may import any package
		}
		r, ok := ruleFor(file.pkg)
		if !ok {
			t.Errorf("%s: no rule for package %s; add it to the table at its row", file.path, file.pkg)
			continue
		}
		if used[file.pkg] == nil {
			used[file.pkg] = map[string]bool{}
		}
		for _, imported := range file.imports {
			if !r.allows(imported) {
				t.Errorf("%s imports %s, which the rule of %s does not list", file.path, imported, r.dir)
			}
			if target, ours := room(imported); ours {
				used[file.pkg][target] = true
			}
		}
	}
	for _, r := range rules {
		for _, listed := range r.imports {
			if !used[r.dir][listed] {
				t.Errorf("the rule of %s lists %s, which no file there imports", r.dir, listed)
			}
		}
	}
}

// TestRulesPointDown checks that a package imports only packages above it in the table.
func TestRulesPointDown(t *testing.T) {
	line := map[string]int{}
	for i, r := range rules {
		if _, twice := line[r.dir]; twice {
			t.Errorf("%s has two rules", r.dir)
		}
		line[r.dir] = i
	}
	for i, r := range rules {
		for _, target := range r.imports {
			if at, ok := line[target]; !ok || at >= i {
				t.Errorf("%s imports %s, which does not stand above it in the table", r.dir, target)
			}
		}
	}
}

// TestRules checks that the rules refuse wrong imports.
func TestRules(t *testing.T) {
	for _, test := range []struct {
		pkg, imported string
		want          bool
	}{
		{"quant", "math/bits", true},
		{"quant", "golang.org/x/sys/cpu", true},
		{"quant", modulePath + "/store", false},
		{"quant", "github.com/stretchr/testify/require", false},
		{"store/gguf", modulePath + "/store/vfs", true},
		{"store/gguf", modulePath + "/exec", false},
		{"store/gguf", modulePath + "/store/pack", false},
		{"exec", modulePath + "/exec/split", false},
		{"exec/modelfile", modulePath + "/exec/weights", false},
		{"kv", modulePath + "/kv/fetch", false},
		{"exec/modelfile", modulePath + "/text/token", true},
		{"text/token", modulePath + "/exec", false},
		{"text/sample", modulePath + "/store", false},
		{".", modulePath + "/text/token", true},
		{".", modulePath + "/cmd/llmrun/bundled", false},
		{".", modulePath + "/internal/testutil", false},
		{"cmd/llmrun", modulePath, true},
		{"cmd/llmrun", modulePath + "/exec", false},
		{"cmd/llmrun", modulePath + "/cmd/llmrun/bundled", true},
		{"cmd/llmrun/bundled", modulePath, false},
		{"cmd/llmrun", modulePath + "/lab/measure", false},
		{"lab/measure", modulePath + "/exec", true},
	} {
		r, ok := ruleFor(test.pkg)
		if got := ok && r.allows(test.imported); got != test.want {
			t.Errorf("may %s import %s: %v, want %v", test.pkg, test.imported, got, test.want)
		}
	}
	if r, ok := ruleFor("surprise"); ok {
		t.Errorf("package surprise falls under the rule of %s", r.dir)
	}
}

// TestLibraryDoesNotCarryTheModel follows all imports of the root package: programs that use the
// library must not link the bundled weights or test helpers.
func TestLibraryDoesNotCarryTheModel(t *testing.T) {
	imports := map[string][]string{}
	for _, file := range goFiles(t) {
		if file.test {
			continue
		}
		for _, imported := range file.imports {
			if target, ours := room(imported); ours {
				imports[file.pkg] = append(imports[file.pkg], target)
			}
		}
	}
	seen := map[string]bool{".": true}
	for queue := []string{"."}; len(queue) > 0; queue = queue[1:] {
		for _, target := range imports[queue[0]] {
			if below(target, "cmd") || below(target, "internal/testutil") {
				t.Errorf("the library reaches %s through %s", target, queue[0])
			}
			if !seen[target] {
				seen[target] = true
				queue = append(queue, target)
			}
		}
	}
}
