// Package ollama tries the server with the tests that ollama has for its own server, unchanged. It is a module of its
// own, so that what they need does not become a dependency of the library.
package ollama

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	// Its tests import these. They are named here so that go.sum has them.
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/google/uuid"
	_ "github.com/ollama/ollama/api"
)

const integration = "github.com/ollama/ollama/integration"

// passing are the tests that must pass.
var passing = []string{
	"TestAPIChatLogprobs", "TestAPIGenerateLogprobs", "TestAPIListModels", "TestAPIShowModel", "TestContextExhaustion", "TestNumPredict",
}

// unknowing are tests that ask for facts which the bundled model does not know. They may fail for that alone; whatever else they check
// must hold.
var unknowing = []string{
	"TestAPIChat", "TestAPIGenerate", "TestBlueSky", "TestChatWithHistory", "TestConcurrentChat", "TestGenerateWithHistory", "TestLongInputContext",
}

// leftOut are the other tests of the build tag integration, with the reason for each. Those behind further tags pull every model of ollama's
// registry.
var leftOut = map[string]string{
	"TestAPIToolCalling":                 "calls 16 models of ollama's registry",
	"TestAllMiniLMBatchEmbed":            "embeddings of a model of ollama's registry",
	"TestAllMiniLMEmbed":                 "embeddings of a model of ollama's registry",
	"TestAllMiniLMEmbedTruncate":         "embeddings of a model of ollama's registry",
	"TestAllMiniLMEmbeddings":            "embeddings of a model of ollama's registry",
	"TestEmbedCosineDistanceCorrelation": "embeddings of models of ollama's registry",
	"TestEmbedLargeInput":                "embeddings of a model of ollama's registry",
	"TestEmbedStatusCode":                "embeddings of a model of ollama's registry",
	"TestEmbedTruncation":                "embeddings of models of ollama's registry",
	"TestExtendedUnicodeOutput":          "asks for emoji, which the bundled model does not write",
	"TestImageGeneration":                "images",
	"TestIntegrationSplitBatch":          "images",
	"TestMaxQueue":                       "skips itself",
	"TestMultiModelStress":               "models of ollama's registry",
	"TestParallelChatWithHistory":        "gpt-oss:20b of ollama's registry",
	"TestParallelGenerateWithHistory":    "gpt-oss:20b of ollama's registry",
	"TestUnicode":                        "a model of ollama's registry",
	"TestUnicodeModelDir":                "runs on Windows only",
	"TestVisionModels":                   "images",
}

// build returns the path of the program with ollama's tests.
func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "ollama.test")
	out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-tags", "integration", "-vet=off", "-o", program, integration).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// endingAnswers passes requests on to a server, and returns its own address. Where a request says neither how answers are drawn nor how
// long they may be, it says so: a small model draws an answer without an end now and then, and the tests would wait for it until their time
// is up.
func endingAnswers(t *testing.T, server string) string {
	t.Helper()
	target, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, Transport: &http.Transport{DisableKeepAlives: true}, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		body, err := io.ReadAll(r.In.Body)
		if err != nil {
			t.Error(err)
		}
		var request map[string]any
		if path := r.In.URL.Path; (path == "/api/chat" || path == "/api/generate") && json.Unmarshal(body, &request) == nil {
			options, _ := request["options"].(map[string]any)
			limited := map[string]any{"seed": 1, "num_predict": 250}
			maps.Copy(limited, options)
			request["options"] = limited
			if body, err = json.Marshal(request); err != nil {
				t.Error(err)
			}
		}
		// A body that is still on its way when the answer begins closes the connection.
		r.Out.Body, r.Out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}})
	t.Cleanup(proxy.Close)
	return proxy.URL
}

// run runs tests of the program against a server, and returns what they print.
func run(t *testing.T, server, program string, args ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), program, args...)
	command.Env = append(os.Environ(), "OLLAMA_TEST_EXISTING=1", "OLLAMA_HOST="+server, "OLLAMA_TEST_DEFAULT_MODEL=llmrun")
	out, err := command.CombinedOutput()
	return string(out), err
}

func anyOf(tests []string) string { return "-test.run=^(" + strings.Join(tests, "|") + ")$" }

var (
	testName  = regexp.MustCompile(`(?m)^Test\w+$`)
	message   = regexp.MustCompile(`^\s+\w+_test\.go:\d+: (.*)`)
	ignorance = regexp.MustCompile(`none of \[.*\] found in`)
	ended     = regexp.MustCompile(`^--- (PASS|FAIL): (\w+)`)
)

func TestOllamaIntegration(t *testing.T) {
	if os.Getenv("LLMRUN_URL") == "" {
		t.Skip("needs a server: make test-clients starts one")
	}
	server := endingAnswers(t, os.Getenv("LLMRUN_URL"))
	program := build(t)
	list, err := run(t, server, program, "-test.list=.")
	if err != nil {
		t.Fatal(err)
	}
	known := slices.Concat(passing, unknowing)
	for name := range leftOut {
		known = append(known, name)
	}
	all := testName.FindAllString(list, -1)
	slices.Sort(known)
	slices.Sort(all)
	if !slices.Equal(all, known) {
		t.Errorf("the lists of this test are not those of ollama:\n%v\n%v", all, known)
	}

	if out, err := run(t, server, program, "-test.timeout=150s", "-test.v", anyOf(passing)); err != nil || strings.Count(out, "\n--- PASS") != len(passing) {
		t.Errorf("%v\n%s", err, out)
	}

	out, _ := run(t, server, program, "-test.timeout=150s", "-test.v", anyOf(unknowing))
	var done []string
	for lines := bufio.NewScanner(bytes.NewBufferString(out)); lines.Scan(); {
		line := lines.Text()
		if found := ended.FindStringSubmatch(line); found != nil {
			done = append(done, found[2])
		}
		if found := message.FindStringSubmatch(line); found != nil && !ignorance.MatchString(found[1]) {
			t.Errorf("not for want of knowledge: %s", line)
		}
	}
	slices.Sort(done)
	if !slices.Equal(done, unknowing) {
		t.Errorf("these tests ended: %v\n%s", done, out)
	}
}
