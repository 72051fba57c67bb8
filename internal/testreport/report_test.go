package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReport(t *testing.T) {
	var out strings.Builder
	r := newReport(&out)
	require.NoError(t, r.read(strings.NewReader(`go: downloading something
{"Action":"start","Package":"a"}
{"Action":"run","Package":"a","Test":"TestGood"}
{"Action":"output","Package":"a","Test":"TestGood","Output":"    a_test.go:1: not printed\n"}
{"Action":"pass","Package":"a","Test":"TestGood"}
{"Action":"output","Package":"a","Test":"TestBad","Output":"=== RUN   TestBad\n"}
{"Action":"output","Package":"a","Test":"TestBad","Output":"    a_test.go:2: wrong\n"}
{"Action":"output","Package":"a","Test":"TestBad","Output":"--- FAIL: TestBad (0.00s)\n"}
{"Action":"fail","Package":"a","Test":"TestBad"}
{"Action":"output","Package":"a","Test":"TestSkip","Output":"    a_test.go:3: no GPU here\n"}
{"Action":"output","Package":"a","Test":"TestSkip","Output":"--- SKIP: TestSkip (0.00s)\n"}
{"Action":"skip","Package":"a","Test":"TestSkip"}
{"Action":"output","Package":"a","Test":"TestStuck","Output":"panic: stuck\n"}
{"Action":"output","Package":"a","Output":"FAIL\n"}
{"Action":"output","Package":"a","Output":"FAIL\ta\t0.1s\n"}
{"Action":"fail","Package":"a"}
{"Action":"output","Package":"b","Output":"PASS\n"}
{"Action":"output","Package":"b","Output":"ok  \tb\t0.1s\n"}
{"Action":"pass","Package":"b"}
{"Action":"build-output","ImportPath":"c","Output":"c.go:1: syntax error\n"}
{"Action":"build-fail","ImportPath":"c"}
`)))
	r.summarize()
	require.Equal(t, `go: downloading something
    a_test.go:2: wrong
--- FAIL: TestBad (0.00s)
panic: stuck
FAIL	a	0.1s
ok  	b	0.1s
c.go:1: syntax error

1 passed, 2 failed, 1 skipped (subtests count)
     1 skipped: no GPU here
`, out.String())
}

// TestExitStatus runs go test on a module with one package.
func TestExitStatus(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("GOFLAGS", "")
	write := func(name, content string) {
		require.NoError(t, os.WriteFile(filepath.FromSlash(name), []byte(content), 0o600))
	}
	write("go.mod", "module m\n\ngo 1.26\n")
	for body, want := range map[string]int{"": 0, "t.Skip()": 0, "t.Fatal()": 1, "not Go": 1} {
		write("m_test.go", "package m\n\nimport \"testing\"\n\nfunc TestM(t *testing.T) { "+body+" }\n")
		code, err := run([]string{"./..."})
		require.NoError(t, err)
		require.Equal(t, want, code, body)
	}
}
