package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// read returns the report of a stream of events and what it printed.
func read(t *testing.T, events string) (*report, string) {
	t.Helper()
	var out strings.Builder
	r := newReport(&out)
	require.NoError(t, r.read(strings.NewReader(events)))
	r.endUnfinished()
	return r, out.String()
}

func TestReport(t *testing.T) {
	r, printed := read(t, `go: downloading something
{"Action":"start","Package":"a"}
{"Action":"run","Package":"a","Test":"TestGood"}
{"Action":"output","Package":"a","Test":"TestGood","Output":"    a_test.go:1: not printed\n"}
{"Action":"pass","Package":"a","Test":"TestGood","Elapsed":2.5}
{"Action":"output","Package":"a","Test":"TestBad","Output":"=== RUN   TestBad\n"}
{"Action":"output","Package":"a","Test":"TestBad/one","Output":"    a_test.go:2: wrong\n"}
{"Action":"output","Package":"a","Test":"TestBad/one","Output":"    --- FAIL: TestBad/one (0.00s)\n"}
{"Action":"fail","Package":"a","Test":"TestBad/one"}
{"Action":"output","Package":"a","Test":"TestBad","Output":"--- FAIL: TestBad (0.00s)\n"}
{"Action":"fail","Package":"a","Test":"TestBad"}
{"Action":"output","Package":"a","Test":"TestSkip","Output":"    a_test.go:3: no GPU here\n"}
{"Action":"output","Package":"a","Test":"TestSkip","Output":"--- SKIP: TestSkip (0.00s)\n"}
{"Action":"skip","Package":"a","Test":"TestSkip"}
{"Action":"output","Package":"a","Output":"FAIL\n"}
{"Action":"output","Package":"a","Output":"FAIL\ta\t0.1s\n"}
{"Action":"fail","Package":"a"}
{"Action":"output","Package":"b","Output":"PASS\n"}
{"Action":"output","Package":"b","Output":"ok  \tb\t0.1s\n"}
{"Action":"pass","Package":"b"}
{"Action":"build-output","ImportPath":"c [c.test]","Output":"c.go:1: syntax error\n"}
{"Action":"build-fail","ImportPath":"c [c.test]"}
{"Action":"output","Package":"c","Output":"FAIL\tc [build failed]\n"}
{"Action":"fail","Package":"c","FailedBuild":"c [c.test]"}
`)
	require.Equal(t, `go: downloading something
    a_test.go:2: wrong
    --- FAIL: TestBad/one (0.00s)
--- FAIL: TestBad (0.00s)
FAIL	a	0.1s
ok  	b	0.1s
c.go:1: syntax error
FAIL	c [build failed]
`, printed)
	var out strings.Builder
	found := r.record("./...")
	require.Equal(t, timedTest{Package: "a", Test: "TestGood", Seconds: 2.5}, found.Slowest[0])
	require.False(t, found.mayRunAgain(2), "c does not build")
	found.printSummary(&out)
	require.Equal(t, `
     1 skipped: no GPU here

failed:
a TestBad/one
      a_test.go:2: wrong
c (does not build)
  c.go:1: syntax error
1 passed, 3 failed, 1 skipped
`, out.String())
}

// TestEndedProcess reads what a package prints that a panic, a race, a time-out or a signal ends.
func TestEndedProcess(t *testing.T) {
	for name, test := range map[string]struct {
		events string
		want   []string // lines of the failures
	}{
		"panic beside a running test": {
			`{"Action":"run","Package":"a","Test":"TestSlow"}
{"Action":"run","Package":"a","Test":"TestPanics"}
{"Action":"output","Package":"a","Test":"TestPanics","Output":"    a_test.go:1: before\n"}
{"Action":"output","Package":"a","Test":"TestPanics","Output":"panic: broken\n"}
{"Action":"output","Package":"a","Test":"TestPanics","Output":"goroutine 7 [running]:\n"}
{"Action":"output","Package":"a","Output":"FAIL\ta\t0.1s\n"}
{"Action":"fail","Package":"a"}
`,
			[]string{"a TestSlow", "a TestPanics", "  panic: broken", "  goroutine 7 [running]:"},
		},
		"time-out": {
			`{"Action":"run","Package":"a","Test":"TestSlow"}
{"Action":"output","Package":"a","Output":"panic: test timed out after 1s\n"}
{"Action":"output","Package":"a","Output":"\trunning tests:\n"}
{"Action":"output","Package":"a","Output":"\t\tTestSlow (1s)\n"}
{"Action":"fail","Package":"a"}
`,
			[]string{"a TestSlow", "a", "  running when it ended: TestSlow", "  panic: test timed out after 1s", "  \trunning tests:", "  \t\tTestSlow (1s)"},
		},
		"race reported in a test that passes": {
			`{"Action":"output","Package":"a","Test":"TestOther","Output":"WARNING: DATA RACE\n"}
{"Action":"output","Package":"a","Test":"TestOther","Output":"Write at 0x00c000012345 by goroutine 8:\n"}
{"Action":"pass","Package":"a","Test":"TestOther"}
{"Action":"output","Package":"a","Test":"TestRaces","Output":"    testing.go:1617: race detected during execution of test\n"}
{"Action":"fail","Package":"a","Test":"TestRaces"}
{"Action":"fail","Package":"a"}
`,
			[]string{"a TestRaces", "      testing.go:1617: race detected during execution of test", "a", "  WARNING: DATA RACE", "  Write at 0x00c000012345 by goroutine 8:"},
		},
		"signal ends go test": {
			`{"Action":"run","Package":"a","Test":"TestStuck"}
{"Action":"output","Package":"a","Test":"TestStuck","Output":"SIGQUIT: quit\n"}
{"Action":"output","Package":"a","Test":"TestStuck","Output":"PC=0x408fee m=0 sigcode=0\n"}
{"Action":"output","Package":"a","Test":"TestStuck","Output":"goroutine 0 [idle]:\n"}
{"Action":"output","Package":"a","Test":"TestStuck","Output":"runtime.netpoll(0x1)\n"}
{"Action":"output","Package":"a","Test":"TestStuck","Output":"goroutine 7 [select (no cases)]:\n"}
{"Action":"output","Package":"a","Test":"TestStuck","Output":"a.TestStuck(0x2)\n"}
{"Action":"output","Package":"a","Test":"TestStuck","Output":"testing.tRunner(0x2, 0x3)\n"}
`,
			[]string{"a TestStuck", "  SIGQUIT: quit", "  goroutine 7 [select (no cases)]:", "  a.TestStuck(0x2)", "  testing.tRunner(0x2, 0x3)"},
		},
		"no test failed": {
			`{"Action":"output","Package":"a","Output":"cannot make a directory\n"}
{"Action":"output","Package":"a","Output":"FAIL\ta\t0.1s\n"}
{"Action":"fail","Package":"a"}
`,
			[]string{"a", "  cannot make a directory", "  FAIL\ta\t0.1s"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := read(t, test.events)
			found := r.record("")
			require.False(t, found.mayRunAgain(2))
			var out strings.Builder
			printFailures(&out, found.Failures, 45)
			require.Equal(t, strings.Join(test.want, "\n")+"\n", out.String())
		})
	}
}

// TestManyFailures prints 100 failures in 20 lines: each line names one, and the last says how many follow.
func TestManyFailures(t *testing.T) {
	var out strings.Builder
	printFailures(&out, make([]failure, 100), 20)
	require.Equal(t, 20, strings.Count(out.String(), "\n"))
	require.Contains(t, out.String(), "and 81 more\n")
}

func TestAlone(t *testing.T) {
	c := parseCommand([]string{"CGO_ENABLED=1", "-race", "-timeout", "30m", "-run", "A|B", "-skip=C", "-exec", "qemu -cpu max", ".", "./kv/..."})
	require.Equal(t, []string{"CGO_ENABLED=1"}, c.environment)
	require.Equal(t, []string{".", "./kv/..."}, c.packages)
	require.False(t, c.fuzzes())
	require.Equal(t, command{
		environment: []string{"CGO_ENABLED=1"},
		flags:       []string{"-race", "-timeout", "30m", "-exec", "qemu -cpu max", "-p", "1", "-count=1", "-run", "^TestA$"},
		packages:    []string{"m/kv"},
	}, c.alone("m/kv", "TestA"))
	require.True(t, parseCommand([]string{"-fuzz", "FuzzA", "."}).fuzzes())
}

// TestFuzzingTimeLimit passes the failure that the fuzzing tool reports when its time ends, and no other.
func TestFuzzingTimeLimit(t *testing.T) {
	limit := failure{Test: "FuzzA", Output: []string{"--- FAIL: FuzzA (3.01s)\n", "    context deadline exceeded\n"}}
	require.True(t, (&record{Failures: []failure{limit}}).onlyReachedTheTimeLimit())
	require.False(t, (&record{}).onlyReachedTheTimeLimit())
	for _, line := range []string{"    a_test.go:7: wrong\n", "    Failing input written to testdata/fuzz/FuzzA/0123\n", "fuzz: minimizing 35-byte failing input file\n"} {
		found := limit
		found.Output = append([]string{line}, limit.Output...)
		require.False(t, (&record{Failures: []failure{found}}).onlyReachedTheTimeLimit(), line)
	}
}
