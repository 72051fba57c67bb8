package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// ownFiles is where Linux tells a process about itself. The rules also apply to this file, which therefore does not
// write the path in one piece. ownProgram is the file of the program itself, which is the same on every machine.
const (
	ownFiles   = "/proc/" + "self"
	ownProgram = `"` + ownFiles + `/exe"`
)

// seededRandom are the functions of math/rand and math/rand/v2 that take a seed or a source.
var seededRandom = []string{"New", "NewPCG", "NewChaCha8", "NewSource", "NewZipf"}

// TestTestsDoNotDependOnTheWeather checks that a test gives the same result on a slow, busy or other machine, unless
// it is marked as one that measures the machine:
//   - It reads the real clock only in benchmarks, and sleeps only there. In a bubble of testing/synctest the clock is
//     fake. testutil.Eventually waits for conditions, and nothing else polls.
//   - It does not look at /proc/self, whose numbers depend on the system and on what ran before. Only the name of
//     the program's own file may stand there.
//   - It draws no random numbers without a seed of its own.
//   - It counts allocations with testutil.AllocsPerRun, which leaves out those of the runtime.
//
// A function is marked by calling testutil.Measured, and its name begins with TestMeasured then and only then.
func TestTestsDoNotDependOnTheWeather(t *testing.T) {
	packages := map[string][]sourceFile{}
	for _, file := range goFiles(t) {
		if file.test {
			packages[file.pkg] = append(packages[file.pkg], file)
		}
	}
	for _, files := range packages {
		var syntax []*ast.File
		for _, file := range files {
			syntax = append(syntax, file.syntax)
		}
		bubbles := bubbleFunctions(syntax)
		for _, file := range files {
			for _, found := range weather(file.path, file.syntax, bubbles) {
				t.Errorf("%v: %s", file.set.Position(found.pos), found.what)
			}
		}
	}
}

// finding is a place that breaks a rule.
type finding struct {
	pos  token.Pos
	what string
}

// bubbleFunctions returns the names of the functions that are passed by name to synctest.Test.
func bubbleFunctions(files []*ast.File) map[string]bool {
	names := map[string]bool{}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && calls(call, "synctest", "Test") {
				for _, arg := range call.Args {
					if name, ok := arg.(*ast.Ident); ok {
						names[name.Name] = true
					}
				}
			}
			return true
		})
	}
	return names
}

// calls reports whether a call is of a function of a package, by the name that the file gives the package.
func calls(call *ast.CallExpr, pkg string, functions ...string) bool {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	from, ok := selector.X.(*ast.Ident)
	return ok && from.Name == pkg && slices.Contains(functions, selector.Sel.Name)
}

// weather returns what breaks the rules in a test file.
func weather(name string, file *ast.File, bubbles map[string]bool) []finding {
	w := weatherVisitor{random: importedAs(file, "math/rand", "math/rand/v2"), clock: importedAs(file, "time")}
	for _, decl := range file.Decls {
		function, ok := decl.(*ast.FuncDecl)
		if !ok {
			w.inspect(decl)
			continue
		}
		title := function.Name.Name
		measured := contains(function, func(call *ast.CallExpr) bool { return calls(call, "testutil", "Measured") })
		if named := strings.HasPrefix(title, "TestMeasured"); named != measured {
			w.add(function.Pos(), title+": a test is named TestMeasured… if and only if it calls testutil.Measured")
		}
		if measured {
			continue
		}
		w.fakeClock = bubbles[title] && function.Recv == nil
		w.benchmark = isBenchmark(name, function)
		w.inspect(function)
		w.fakeClock, w.benchmark = false, false
	}
	return w.found
}

// isBenchmark reports whether a function is a benchmark or a helper of benchmarks: it takes a *testing.B, or it is
// neither a test nor a fuzz target in a file of benchmarks.
func isBenchmark(file string, function *ast.FuncDecl) bool {
	for _, param := range function.Type.Params.List {
		if star, ok := param.Type.(*ast.StarExpr); ok {
			if typ, ok := star.X.(*ast.SelectorExpr); ok && typ.Sel.Name == "B" {
				return true
			}
		}
	}
	title := function.Name.Name
	return strings.HasSuffix(path.Base(file), "bench_test.go") && !strings.HasPrefix(title, "Test") && !strings.HasPrefix(title, "Fuzz")
}

// importedAs returns the names by which a file imports packages.
func importedAs(file *ast.File, paths ...string) (names []string) {
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil || !slices.Contains(paths, imported) {
			continue
		}
		name := path.Base(strings.TrimSuffix(imported, "/v2"))
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names = append(names, name)
	}
	return names
}

// contains reports whether a node contains a call.
func contains(node ast.Node, matches func(*ast.CallExpr) bool) (found bool) {
	ast.Inspect(node, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && matches(call) {
			found = true
		}
		return !found
	})
	return found
}

// weatherVisitor collects findings.
type weatherVisitor struct {
	random, clock        []string // names of the packages in the file
	fakeClock, benchmark bool     // of the function that is inspected
	found                []finding
}

func (w *weatherVisitor) add(pos token.Pos, what string) {
	w.found = append(w.found, finding{pos, what})
}

func (w *weatherVisitor) inspect(node ast.Node) {
	ast.Inspect(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if n.Kind == token.STRING && strings.Contains(n.Value, ownFiles) && n.Value != ownProgram {
				w.add(n.Pos(), "reads "+ownFiles)
			}
		case *ast.CallExpr:
			if calls(n, "synctest", "Test") {
				outside := w.fakeClock
				w.fakeClock = true
				for _, arg := range n.Args {
					w.inspect(arg)
				}
				w.fakeClock = outside
				return false
			}
			w.check(n)
		}
		return true
	})
}

// check applies the rules for calls.
func (w *weatherVisitor) check(call *ast.CallExpr) {
	for _, name := range w.random {
		if selector, ok := call.Fun.(*ast.SelectorExpr); ok && calls(call, name, selector.Sel.Name) {
			switch {
			case !slices.Contains(seededRandom, selector.Sel.Name):
				w.add(call.Pos(), "draws a random number without a seed of its own")
			case contains(call, w.readsClock):
				w.add(call.Pos(), "takes the time as the seed of random numbers")
			}
		}
	}
	for _, name := range []string{"require", "assert"} {
		if calls(call, name, "Eventually", "Eventuallyf", "EventuallyWithT", "EventuallyWithTf", "Never", "Neverf") {
			w.add(call.Pos(), "polls for a time of its own; testutil.Eventually waits for conditions")
		}
	}
	if calls(call, "testing", "AllocsPerRun") {
		w.add(call.Pos(), "counts what the runtime allocates for itself; testutil.AllocsPerRun leaves it out")
	}
	if w.fakeClock || w.benchmark {
		return
	}
	if w.readsClock(call) {
		w.add(call.Pos(), "reads the real clock")
	}
	for _, name := range w.clock {
		if calls(call, name, "Sleep") {
			w.add(call.Pos(), "sleeps")
		}
	}
}

func (w *weatherVisitor) readsClock(call *ast.CallExpr) bool {
	return slices.ContainsFunc(w.clock, func(name string) bool { return calls(call, name, "Now", "Since", "Until") })
}

// TestWeatherRules shows that each rule can be broken and kept.
func TestWeatherRules(t *testing.T) {
	const (
		clock, sleep   = "reads the real clock", "sleeps"
		unseeded       = "draws a random number without a seed of its own"
		seededFromTime = "takes the time as the seed of random numbers"
		polls          = "polls for a time of its own; testutil.Eventually waits for conditions"
		allocations    = "counts what the runtime allocates for itself; testutil.AllocsPerRun leaves it out"
		naming         = ": a test is named TestMeasured… if and only if it calls testutil.Measured"
	)
	for _, c := range []struct {
		name, file, source string
		want               []string
	}{
		{name: "sleep", source: `func TestA(t *testing.T) { time.Sleep(1) }`, want: []string{sleep}},
		{name: "sleep of a helper", source: `type s struct{}; func (s) ReadAt() { time.Sleep(1) }`, want: []string{sleep}},
		{name: "sleep in a variable", source: `var f = func() { time.Sleep(1) }`, want: []string{sleep}},
		{name: "sleep in a bubble", source: `func TestA(t *testing.T) { synctest.Test(t, func(t *testing.T) { time.Sleep(1) }) }`},
		{name: "sleep after a bubble", source: `func TestA(t *testing.T) { synctest.Test(t, func(t *testing.T) {}); time.Sleep(1) }`, want: []string{sleep}},
		{name: "sleep in the function of a bubble", source: `func TestA(t *testing.T) { synctest.Test(t, testA) }; func testA(t *testing.T) { time.Sleep(1) }`},
		{name: "clock", source: `func TestA(t *testing.T) { s := time.Now(); require.Less(t, time.Since(s), 5) }`, want: []string{clock, clock}},
		{name: "deadline", source: `func TestA(t *testing.T) { for time.Until(end) > 0 {} }`, want: []string{clock}},
		{name: "clock under another name", source: `import clock "time"; func TestA(t *testing.T) { clock.Now() }`, want: []string{clock}},
		{name: "clock in a fuzz target", source: `func FuzzA(f *testing.F) { f.Fuzz(func(t *testing.T) { time.Now() }) }`, want: []string{clock}},
		{name: "clock in a benchmark", source: `func BenchmarkA(b *testing.B) { time.Now() }; func best(b *testing.B) { time.Now() }`},
		{name: "clock of a helper in a file of benchmarks", file: "x_bench_test.go", source: `func read() { time.Now() }`},
		{name: "clock of a test in a file of benchmarks", file: "x_bench_test.go", source: `func TestA(t *testing.T) { time.Now() }`, want: []string{clock}},
		{name: "clock where the machine is measured", source: `func TestMeasuredA(t *testing.T) { testutil.Measured(t); time.Now() }`},
		{name: "another method Now", source: `func TestA(t *testing.T) { machine.Now() }`},
		{name: "process", source: `func TestA(t *testing.T) { os.ReadFile("` + ownFiles + `/status") }`, want: []string{"reads " + ownFiles}},
		{name: "program of the process", source: `func TestA(t *testing.T) { require.Equal(t, "` + ownFiles + `/exe", at.path) }`},
		{name: "process beside its program", source: `func TestA(t *testing.T) { os.ReadFile("` + ownFiles + `/exe/../maps") }`, want: []string{"reads " + ownFiles}},
		{name: "made-up process", source: `func TestA(t *testing.T) { _ = fstest.MapFS{"proc/self/status": nil} }`},
		{name: "random number", source: `func TestA(t *testing.T) { rand.IntN(5) }`, want: []string{unseeded}},
		{name: "random generic", source: `func BenchmarkA(b *testing.B) { rand.Uint64() }`, want: []string{unseeded}},
		{name: "random with a seed", source: `func TestA(t *testing.T) { r := rand.New(rand.NewPCG(1, 2)); r.IntN(5) }`},
		{name: "random with the time", source: `func BenchmarkA(b *testing.B) { rand.NewPCG(uint64(time.Now().UnixNano()), 1) }`, want: []string{seededFromTime}},
		{name: "polling", source: `func TestA(t *testing.T) { require.Eventually(t, f, 5, 1) }`, want: []string{polls}},
		{name: "waiting", source: `func TestA(t *testing.T) { testutil.Eventually(t, "a", f) }`},
		{name: "allocations", source: `func TestA(t *testing.T) { require.Zero(t, testing.AllocsPerRun(5, f)) }`, want: []string{allocations}},
		{name: "allocations of the work alone", source: `func TestA(t *testing.T) { require.Zero(t, testutil.AllocsPerRun(5, 0, f)) }`},
		{name: "measured without the name", source: `func TestA(t *testing.T) { testutil.Measured(t) }`, want: []string{"TestA" + naming}},
		{name: "named without the mark", source: `func TestMeasuredA(t *testing.T) {}`, want: []string{"TestMeasuredA" + naming}},
	} {
		t.Run(c.name, func(t *testing.T) {
			imports := `import "time"; import "math/rand/v2"; `
			if strings.HasPrefix(c.source, "import") {
				imports = ""
			}
			file, err := parser.ParseFile(token.NewFileSet(), "", "package x; "+imports+c.source, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			name := c.file
			if name == "" {
				name = "x_test.go"
			}
			for _, found := range weather(name, file, bubbleFunctions([]*ast.File{file})) {
				got = append(got, found.what)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("found %q, not %q", got, c.want)
			}
		})
	}
}
