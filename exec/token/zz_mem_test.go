package token_test

import (
	"github.com/llmrun/llmrun/exec/token"
	"os"
	"strings"
	"testing"
	"time"
)

func TestZZMem(t *testing.T) {
	if os.Getenv("ZZM") == "" {
		t.Skip()
	}
	tok := vocabulary(t, os.Getenv("ZZM"))
	s := strings.Repeat("a", 10<<20)
	t0 := time.Now()
	ids := tok.Encode(s, token.EncodeOptions{})
	t.Log(len(ids), time.Since(t0))
	d, _ := os.ReadFile("/proc/self/status")
	for _, l := range strings.Split(string(d), "\n") {
		if strings.HasPrefix(l, "VmHWM") {
			t.Log(l)
		}
	}
}
