package serve

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
)

// streamModelVariable is the environment variable with the path of the model for BenchmarkStreaming.
const streamModelVariable = "LLMRUN_STREAM_MODEL"

// BenchmarkStreaming compares an answer from the engine with the same answer as a stream by HTTP: tokens per second, and how long behind
// the engine's first token the client has the first byte of the body. streamModelVariable names another model than the bundled one.
func BenchmarkStreaming(b *testing.B) {
	const tokens = 128
	s := newDemo(func(o *Options) {
		if path := os.Getenv(streamModelVariable); path != "" {
			o.Models[0] = Model{Name: "demo", Path: path}
		}
	})
	defer s.Close()
	web := httptest.NewServer(s)
	defer web.Close()
	defer s.Close()
	e, err := s.models.find("demo")
	require.NoError(b, err)
	engine, err := s.models.use(b.Context(), e.entry)
	require.NoError(b, err)
	defer s.models.release(e.entry)
	report := func(b *testing.B) (rate float64) {
		rate = float64(tokens*b.N) / b.Elapsed().Seconds()
		b.ReportMetric(rate, "tok/s")
		return rate
	}
	var engineRate float64
	b.Run("engine", func(b *testing.B) {
		for b.Loop() {
			session, err := engine.NewSession()
			require.NoError(b, err)
			for _, err := range session.Generate(b.Context(), "Once upon a time", llmrun.GenerateOptions{MaxTokens: tokens, IgnoreEOS: true}) {
				require.NoError(b, err)
			}
			require.NoError(b, session.Close())
		}
		engineRate = report(b)
	})
	b.Run("http", func(b *testing.B) {
		var behind time.Duration
		for b.Loop() {
			behind += streamOnce(b, s, web, tokens)
		}
		rate := report(b)
		if engineRate > 0 { // the engine ran as well
			b.ReportMetric(rate/engineRate, "of-engine")
		}
		b.ReportMetric(float64(behind.Microseconds())/1000/float64(b.N), "ms-behind")
	})
}

// streamOnce asks for a stream, reads it, and returns how long its first byte was behind the engine's first token.
func streamOnce(b *testing.B, s *Server, web *httptest.Server, tokens int) time.Duration {
	b.Helper()
	var first time.Time // of the engine
	web.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.handle(openAI{}, func(o *object) *job {
			j := s.readCompletion(o)
			run := j.run
			j.run = func(ctx context.Context, w http.ResponseWriter, u *use) error {
				return run(ctx, &noting{ResponseWriter: w, first: &first}, u)
			}
			return j
		})(w, r)
	})
	body := fmt.Sprintf(`{"prompt":"Once upon a time","max_tokens":%d,"temperature":0,"stream":true,"logit_bias":{%s}}`, tokens, endBias(b))
	response, err := web.Client().Post(web.URL, "application/json", strings.NewReader(body))
	require.NoError(b, err)
	defer response.Body.Close()
	_, err = response.Body.Read(make([]byte, 1))
	require.NoError(b, err)
	behind := time.Since(first)
	require.Contains(b, text(b, response.Body), `"finish_reason":"length"`, "the answer has all tokens")
	return behind
}

// noting notes when the first byte is written, which is right behind the engine's first token.
type noting struct {
	http.ResponseWriter
	first *time.Time
}

func (n *noting) Unwrap() http.ResponseWriter { return n.ResponseWriter }

func (n *noting) Write(p []byte) (int, error) {
	if n.first.IsZero() {
		*n.first = time.Now()
	}
	return n.ResponseWriter.Write(p)
}
