package archtest

import (
	"slices"
	"strings"
	"testing"
)

// A rule says where a package stands and what other modules it imports.
type rule struct {
	dir      string
	only     []string // packages of this module, if it may import fewer than those above it
	external []string // other modules, by import path prefix
}

// rules lists all packages from the bottom up: a package imports only packages above its own line. The
// everyday command has a list, which shows that the root package is enough for it.
var rules = []rule{
	{dir: "internal/bound"},
	{dir: "internal/build"},
	{dir: "internal/ended"},
	{dir: "internal/toml"},
	{dir: "internal/cli", external: []string{"golang.org/x/term"}},
	{dir: "internal/cli/clitest", external: []string{"github.com/stretchr/testify"}},
	{dir: "internal/plot"},
	{dir: "internal/testreport"},
	{dir: "internal/trace"},
	{dir: "lab/schedule"},
	{dir: "quant", external: []string{"golang.org/x/sys"}},
	{dir: "quant/internal/asmgen"},
	{dir: "store/gcm", external: []string{"golang.org/x/sys"}},
	{dir: "store/vfs", external: []string{"github.com/edsrzf/mmap-go", "golang.org/x/sys"}},
	{dir: "text/answer"},
	{dir: "text/channel"},
	{dir: "text/constrain"},
	{dir: "text/document"},
	{dir: "text/jinja"},
	{dir: "tiering", external: []string{"golang.org/x/sys"}},
	{dir: "hetero"},
	{dir: "internal/threadpool", external: []string{"golang.org/x/sys"}},
	{dir: "prefetch"},
	{dir: "quant/limits", external: []string{"golang.org/x/sys"}},
	{dir: "quant/tiled", external: []string{"golang.org/x/sys"}},
	{dir: "quant/internal/kerneltable"},
	{dir: "text/sample"},
	{dir: "store", external: []string{"github.com/cespare/xxhash/v2"}},
	{dir: "store/crc", external: []string{"golang.org/x/sys"}},
	{dir: "hetero/cpu", external: []string{"golang.org/x/sys"}},
	{dir: "hetero/onnx/graph"},
	{dir: "hetero/opencl", external: []string{"github.com/ebitengine/purego", "golang.org/x/sys"}},
	{dir: "hetero/rates"},
	{dir: "hetero/solve"},
	{dir: "lab/sim"},
	{dir: "store/allowance"},
	{dir: "store/digest"},
	{dir: "store/gguf"},
	{dir: "store/pack"},
	{dir: "store/record", external: []string{"github.com/pierrec/lz4/v4"}},
	{dir: "store/safetensors"},
	{dir: "store/w8a8"},
	{dir: "hetero/onnx", external: []string{"github.com/ebitengine/purego", "golang.org/x/sys"}},
	{dir: "hetero/profiles"},
	{dir: "kv/segment"},
	{dir: "lab/papers"},
	{dir: "store/synth"},
	{dir: "text/token", external: []string{"golang.org/x/text"}},
	{dir: "notes/index", external: []string{"golang.org/x/text"}},
	{dir: "hetero/devices", external: []string{"github.com/ebitengine/purego"}},
	{dir: "kv"},
	{dir: "exec/arch"},
	{dir: "exec/altup"},
	{dir: "exec/recurrent"},
	{dir: "kv/fetch"},
	{dir: "exec/modelfile"},
	{dir: "exec/weights"},
	{dir: "exec/calib"},
	{dir: "exec/draft"},
	{dir: "exec"},
	{dir: "exec/gpupass"},
	{dir: "internal/bench"},
	{dir: "exec/split"},
	{dir: "internal/deviceplan"},
	{dir: "internal/enginemodel"},
	{dir: "internal/modelflag"},
	{dir: "."},
	{dir: "serve", only: []string{"."}},
	{dir: "jobs", only: []string{"."}},
	{dir: "notes", only: []string{".", "internal/ended", "notes/index"}},
	{dir: "mobile", only: []string{".", "notes"}},
	{dir: "examples/notesapp", only: []string{".", "notes"}},
	{dir: "hub", only: []string{"internal/ended", "store/vfs", "tiering"}},
	{dir: "cmd/llmrun/bundled", only: []string{"store/vfs"}},
	{dir: "internal/testutil", external: []string{"github.com/rogpeppe/go-internal"}},
	{dir: "internal/testutil/failing"},
	{dir: "internal/testutil/hubmodel"},
	{dir: "internal/testutil/hubserver"},
	{dir: "internal/modeltest", external: []string{"github.com/stretchr/testify"}},
	{dir: "internal/bench/spec"},
	{dir: "cmd/llmrun", only: []string{".", "cmd/llmrun/bundled", "hub", "internal/bench", "internal/bench/spec", "internal/build", "internal/cli", "internal/deviceplan", "internal/ended", "internal/enginemodel", "internal/modelflag", "jobs", "notes", "serve"}, external: []string{"golang.org/x/term"}},
	{dir: "lab/measure"},
	{dir: "cmd/llmlab"},
	{dir: "scripts/arm64/model"},
	{dir: "internal/release"},
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
		if r.only != nil {
			return slices.Contains(r.only, target)
		}
		at := func(dir string) int { return slices.IndexFunc(rules, func(r rule) bool { return r.dir == dir }) }
		return at(target) >= 0 && at(target) < at(r.dir)
	}
	first, _, _ := strings.Cut(imported, "/")
	if !strings.Contains(first, ".") {
		return true // the standard library has no dot in its first element
	}
	return slices.ContainsFunc(r.external, func(prefix string) bool { return below(imported, prefix) })
}

// TestImportDirections checks that a package imports only packages above it in the table.
func TestImportDirections(t *testing.T) {
	for _, file := range goFiles(t) {
		if file.test {
			continue // tests may import any package
		}
		r, ok := ruleFor(file.pkg)
		if !ok {
			t.Errorf("%s: no rule for package %s; add it to the table at its row", file.path, file.pkg)
			continue
		}
		for _, imported := range file.imports {
			if !r.allows(imported) {
				t.Errorf("%s imports %s, which does not stand above %s in the table", file.path, imported, r.dir)
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
		{"text/document", modulePath + "/text/token", false},
		{"kv/segment", modulePath + "/store/record", true},
		{"text/sample", modulePath + "/store", false},
		{".", modulePath + "/text/token", true},
		{".", modulePath + "/cmd/llmrun/bundled", false},
		{".", modulePath + "/internal/testutil", false},
		{"cmd/llmrun", modulePath, true},
		{"cmd/llmrun", modulePath + "/exec", false},
		{"serve", modulePath, true},
		{"serve", modulePath + "/text/sample", false},
		{"serve", modulePath + "/cmd/llmrun/bundled", false},
		{".", modulePath + "/serve", false},
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
			if below(target, "cmd") || below(target, "internal/testutil") || below(target, "internal/modeltest") {
				t.Errorf("the library reaches %s through %s", target, queue[0])
			}
			if !seen[target] {
				seen[target] = true
				queue = append(queue, target)
			}
		}
	}
}
