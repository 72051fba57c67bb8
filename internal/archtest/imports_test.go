package archtest

import (
	"slices"
	"strings"
	"testing"
)

// rule says what the packages of one directory may import besides the standard
// library and packages of the same directory tree.
type rule struct {
	dir      string
	rooms    []string // directories of this module, with what lies under them
	external []string // other modules, by import path prefix
}

// rules is the drawing of the house, bottom row first. The most specific
// directory wins, so text/token may reach less than exec may.
var rules = []rule{
	{dir: "quant", external: []string{"golang.org/x/sys"}},
	{dir: "text/jinja"},
	{dir: "text/token", rooms: []string{"quant", "store"}, external: []string{"golang.org/x/text"}},
	{dir: "text/sample", rooms: []string{"quant"}},
	{dir: "tiering", external: []string{"golang.org/x/sys"}},
	{dir: "store", rooms: []string{"quant"}, external: []string{
		"golang.org/x/sys", "github.com/cespare/xxhash/v2", "github.com/edsrzf/mmap-go",
	}},
	// Memory that is summed is asked for ahead.
	{dir: "store/crc", rooms: []string{"tiering"}, external: []string{"golang.org/x/sys"}},
	{dir: "prefetch", rooms: []string{"store", "tiering"}, external: []string{"golang.org/x/sys"}},
	{dir: "hetero", rooms: []string{"quant", "tiering", "internal/threadpool"}, external: []string{"golang.org/x/sys"}},
	// A device of a library that is loaded at run time; prepared graphs are kept in files.
	{dir: "hetero/onnx", rooms: []string{"quant", "tiering", "store", "hetero"}, external: []string{
		"golang.org/x/sys", "github.com/ebitengine/purego",
	}},
	// Drivers are loaded at run time, in builds that ask for it.
	{dir: "hetero/opencl", rooms: []string{"quant", "tiering", "hetero", "internal/trace"}, external: []string{
		"golang.org/x/sys", "github.com/ebitengine/purego",
	}},
	// Flash is measured as it is read.
	{dir: "hetero/rates", rooms: []string{"quant", "store", "tiering", "hetero", "internal/threadpool"}},
	// What was measured of devices is kept in a file.
	{dir: "hetero/profiles", rooms: []string{"quant", "tiering", "store", "hetero", "internal/build"}},
	{dir: "kv", rooms: []string{"quant", "store", "tiering", "prefetch"}, external: []string{
		"github.com/cespare/xxhash/v2",
	}},
	{dir: "exec", rooms: []string{"quant", "store", "tiering", "prefetch", "hetero", "kv", "text", "internal/threadpool", "internal/trace"}},
	{dir: "exec/gpupass", rooms: []string{"tiering", "hetero", "exec", "internal/trace"}},
	{dir: "exec/split", rooms: []string{"quant", "tiering", "hetero", "kv", "exec", "internal/threadpool", "internal/trace"}},
	{dir: ".", rooms: []string{"quant", "store", "tiering", "prefetch", "hetero", "kv", "exec", "text", "internal/build", "internal/threadpool", "internal/trace"}},
	// The commands use the library, and a model to measure.
	{dir: "cmd/llmrun", rooms: []string{".", "internal/cli", "internal/modelflag", "internal/bench", "internal/deviceplan"}, external: []string{"golang.org/x/term"}},
	{dir: "cmd/llmrun/bundled"},
	{dir: "cmd/llmlab", rooms: []string{".", "cmd/llmrun/bundled", "internal/build", "internal/cli", "internal/modelflag", "lab"}},
	// Measuring asks for what no user of the library needs.
	{dir: "lab", rooms: []string{".", "quant", "store", "tiering", "hetero", "kv", "exec", "internal/bench", "internal/deviceplan", "internal/plot", "internal/threadpool", "internal/trace"}},
	{dir: "internal/bench", rooms: []string{".", "quant", "store", "tiering", "hetero", "kv", "exec", "internal/threadpool"}},
	{dir: "internal/deviceplan", rooms: []string{".", "quant", "store", "tiering", "hetero", "kv", "exec", "internal/bench", "internal/build", "internal/threadpool", "internal/trace"}},
	{dir: "internal/cli", external: []string{"golang.org/x/term"}},
	{dir: "internal/modelflag", rooms: []string{"internal/bench", "internal/cli"}},
	{dir: "internal"},
	{dir: "internal/testutil", external: []string{"github.com/rogpeppe/go-internal"}},
	// Idle workers prefetch memory.
	{dir: "internal/threadpool", rooms: []string{"tiering"}, external: []string{"golang.org/x/sys"}},
}

// ruleFor returns the rule of the longest directory that contains pkg.
func ruleFor(pkg string) (rule, bool) {
	best, found := rule{}, false
	for _, r := range rules {
		within := r.dir == pkg || (r.dir != "." && below(pkg, r.dir))
		if within && (!found || len(r.dir) > len(best.dir)) {
			best, found = r, true
		}
	}
	return best, found
}

// allows reports whether a package under the rule may import the path.
func (r rule) allows(imported string) bool {
	if target, ours := room(imported); ours {
		if r.dir != "." && below(target, r.dir) {
			return true
		}
		return slices.ContainsFunc(r.rooms, func(dir string) bool {
			return target == dir || (dir != "." && below(target, dir))
		})
	}
	first, _, _ := strings.Cut(imported, "/")
	if !strings.Contains(first, ".") {
		return true // the standard library has no dot in its first element
	}
	return slices.ContainsFunc(r.external, func(prefix string) bool { return below(imported, prefix) })
}

func TestImportDirections(t *testing.T) {
	for _, file := range goFiles(t) {
		if file.test {
			continue // a test may reach wherever the compiler lets it
		}
		r, ok := ruleFor(file.pkg)
		if !ok {
			t.Errorf("%s: no rule for package %s; add it to the table at its row", file.path, file.pkg)
			continue
		}
		for _, imported := range file.imports {
			if !r.allows(imported) {
				t.Errorf("%s imports %s, which %s may not", file.path, imported, r.dir)
			}
		}
	}
}

// TestRules proves that the table can fail.
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

// TestLibraryDoesNotCarryTheModel follows the root package's imports to the
// end: who uses the library must not link the bundled weights or test helpers.
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
