package main

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// inModule changes to a new module with one test file, whose imports and declarations are body.
func inModule(t *testing.T, body string) {
	t.Helper()
	t.Chdir(t.TempDir())
	t.Setenv("GOFLAGS", "")
	t.Setenv("GOWORK", "off")
	require.NoError(t, os.WriteFile("go.mod", []byte("module m\n\ngo 1.26\n"), 0o600))
	require.NoError(t, os.WriteFile("m_test.go", []byte("package m\n\n"+body), 0o600))
}

// onlyFirst fails in the first run of a test and passes in the second one.
const onlyFirst = `
import ("os"; "testing")

func onlyFirst(t *testing.T) {
	if _, err := os.Stat(t.Name()); err != nil {
		os.WriteFile(t.Name(), nil, 0o600)
		t.Fatal("the first time")
	}
}
`

// TestRun runs go test on modules whose tests pass or fail in each way.
func TestRun(t *testing.T) {
	const test = "import \"testing\"\n\nfunc TestM(t *testing.T) { "
	for name, c := range map[string]struct {
		body      string
		arguments []string
		code      int
		end       []string // what the last 60 lines contain
		absent    string
	}{
		"passes":      {body: test + "}", end: []string{"1 passed, 0 failed, 0 skipped"}},
		"is skipped":  {body: test + "t.Skip(\"no device\") }", end: []string{"1 skipped: no device", "0 passed, 0 failed, 1 skipped"}},
		"fails twice": {body: test + "t.Fatal(\"wrong sum\") }", code: 1, end: []string{"again, alone: m TestM", "m TestM\n", "wrong sum", "0 passed, 1 failed, 0 skipped"}},
		"does not build": {
			body: "not Go", code: 1, absent: "again",
			end: []string{"m (does not build)", "expected declaration", "0 passed, 1 failed, 0 skipped"},
		},
		"panics": {body: test + "panic(\"no such layer\") }", code: 1, absent: "again", end: []string{"m TestM\n", "panic: no such layer"}},
		"takes too long": {
			body: test + "select {} }", arguments: []string{"-timeout", "1s"}, code: 1, absent: "again",
			end: []string{"m TestM\n", "panic: test timed out after 1s", "running tests:", "TestM (1s)"},
		},
		"ends in its fixture": {
			body: "import (\"os\"; \"testing\")\n\nfunc TestMain(*testing.M) { println(\"no directory\"); os.Exit(3) }", code: 1, absent: "again",
			end: []string{"no directory", "0 passed, 1 failed, 0 skipped"},
		},
		"is unsteady": {
			body: onlyFirst + "func TestM(t *testing.T) { onlyFirst(t) }\nfunc TestN(t *testing.T) { onlyFirst(t) }",
			end:  []string{"unsteady: m TestM failed, and passed alone", "unsteady: m TestN failed", "first:", "the first time", "2 passed, 0 failed, 0 skipped"},
		},
		"is unsteady too often": {
			body: onlyFirst + "func TestM(t *testing.T) { onlyFirst(t) }\nfunc TestN(t *testing.T) { onlyFirst(t) }\nfunc TestO(t *testing.T) { onlyFirst(t) }",
			code: 1, absent: "again", end: []string{"m TestM", "m TestN", "m TestO", "0 passed, 3 failed, 0 skipped"},
		},
		"crashes while it is fuzzed": {
			body: "import \"testing\"\n\nfunc FuzzM(f *testing.F) { f.Add(\"seed\"); f.Fuzz(func(t *testing.T, s string) { if s != \"seed\" { t.Fatal(\"found\") } }) }",
			code: 1, arguments: []string{"-fuzz", "FuzzM", "-fuzztime", "30s", "-fuzzminimizetime", "1x"}, absent: "again",
			end: []string{"m FuzzM", "found", "the input testdata/fuzz/FuzzM/", "go test fuzz v1", "string("},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inModule(t, c.body)
			var out strings.Builder
			code, err := run(append(c.arguments, "./..."), "", &out)
			require.NoError(t, err)
			require.Equal(t, c.code, code, out.String())
			lines := strings.SplitAfter(out.String(), "\n")
			end := strings.Join(lines[max(0, len(lines)-61):], "")
			for _, want := range c.end {
				require.Contains(t, end, want)
			}
			if c.absent != "" {
				require.NotContains(t, out.String(), c.absent)
			}
		})
	}
}

// TestRecords runs two calls of a check. The unsteady test of the first counts in the second, and the end names what both found.
func TestRecords(t *testing.T) {
	inModule(t, onlyFirst+`
func TestM(t *testing.T) { onlyFirst(t) }
func TestN(t *testing.T) { onlyFirst(t) }
func TestO(t *testing.T) { onlyFirst(t) }
func TestSkipped(t *testing.T) { t.Skip("no device") }
`)
	records := recordDir(t.TempDir())
	var out strings.Builder
	code, err := run([]string{"-run", "TestM|Skipped", "."}, records, &out)
	require.NoError(t, err)
	require.Equal(t, 0, code)
	code, err = run([]string{"-run", "TestN|TestO", "."}, records, &out)
	require.NoError(t, err)
	require.Equal(t, 1, code, "three unsteady tests")
	out.Reset()
	require.NoError(t, records.printFailures(&out, 40))
	require.Contains(t, out.String(), "m TestN\n")
	require.Contains(t, out.String(), "m TestO\n")
	require.NotContains(t, out.String(), "TestM")
	out.Reset()
	require.NoError(t, records.printEnd(&out))
	require.Contains(t, out.String(), " s m TestM\n")
	require.Contains(t, out.String(), "     1 skipped: no device\nunsteady: m TestM failed, and passed alone\n")
	require.True(t, strings.HasSuffix(out.String(), "\n1 passed, 2 failed, 1 skipped\n"), out.String())
}

// TestRecordsSideBySide adds the records of calls that have decided at the same time. Each has its own file, and the
// one whose unsteady tests are too many, together with the others, fails.
func TestRecordsSideBySide(t *testing.T) {
	records := recordDir(t.TempDir())
	const calls = 8
	var group sync.WaitGroup
	for range calls {
		group.Go(func() {
			_, err := records.add(&record{Passed: 1})
			assert.NoError(t, err)
		})
	}
	group.Wait()
	all, err := records.read()
	require.NoError(t, err)
	require.Len(t, all, calls)

	flaky := func() *record {
		return &record{Passed: 1, Unsteady: []unsteady{{First: failure{Package: "m", Test: "TestM", Leaves: []string{"TestM"}, Results: 1}}}}
	}
	for range mostUnsteady {
		tooMany, err := records.add(flaky())
		require.NoError(t, err)
		require.False(t, tooMany)
	}
	tooMany, err := records.add(flaky())
	require.NoError(t, err)
	require.True(t, tooMany)
	var out strings.Builder
	require.NoError(t, records.printFailures(&out, 44))
	require.Equal(t, "m TestM\n", out.String())
}

// TestHold checks that calls run side by side, and that one that runs a test again waits until all others have
// ended.
func TestHold(t *testing.T) {
	records := recordDir(t.TempDir())
	first, err := records.hold(false)
	require.NoError(t, err)
	second, err := records.hold(false)
	require.NoError(t, err)
	begun, mayEnd, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		release, err := records.hold(true)
		assert.NoError(t, err)
		close(begun)
		<-mayEnd
		release()
	}()
	first()
	select {
	case <-begun:
		t.Fatal("not alone")
	default:
	}
	second()
	<-begun
	waiting := make(chan struct{})
	go func() {
		defer close(waiting)
		release, err := records.hold(false)
		assert.NoError(t, err)
		release()
	}()
	select {
	case <-waiting:
		t.Fatal("beside a test that runs alone")
	default:
	}
	close(mayEnd)
	<-ended
	<-waiting
}

// TestDataRace runs a test that races, where a C compiler is installed.
func TestDataRace(t *testing.T) {
	inModule(t, `import "testing"

func TestM(t *testing.T) {
	shared, done := 0, make(chan bool)
	go func() { shared++; close(done) }()
	shared++
	<-done
}
`)
	var out strings.Builder
	code, err := run([]string{"CGO_ENABLED=1", "-race", "."}, "", &out)
	require.NoError(t, err)
	if strings.Contains(out.String(), "C compiler") || strings.Contains(out.String(), "-race is only supported") {
		t.Skip("the race detector needs a C compiler and a supported processor")
	}
	require.Equal(t, 1, code)
	require.Contains(t, out.String(), "WARNING: DATA RACE")
	require.NotContains(t, out.String(), "again")
}

func TestPackageDir(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("go.mod", []byte("module example.com/m\n\ngo 1.26\n"), 0o600))
	require.Equal(t, "."+string(filepath.Separator)+filepath.Join("text", "jinja"), packageDir("example.com/m/text/jinja"))
}
