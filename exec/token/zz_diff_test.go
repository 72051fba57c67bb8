package token

import (
	"encoding/json"
	"os"
	"testing"
)

func TestZZDump(t *testing.T) {
	if os.Getenv("ZZ") == "" {
		t.Skip()
	}
	type item struct {
		Expr, Text string
		Keep       string
		Out        []string
	}
	var items []item
	d, _ := os.ReadFile("/tmp/zz_in.json")
	if os.Getenv("ZZ") == "exprs" {
		m := map[string]bool{}
		for _, p := range prePatterns {
			for _, e := range p.exprs {
				m[e] = true
			}
		}
		var l []string
		for e := range m {
			l = append(l, e)
		}
		o, _ := json.Marshal(l)
		os.WriteFile("/tmp/zz_exprs.json", o, 0o600)
		return
	}
	json.Unmarshal(d, &items)
	for i := range items {
		f, err := compilePattern("x", items[i].Expr)
		if err != nil {
			t.Error(err)
			continue
		}
		items[i].Out = []string{}
		(&cut{at: f}).split(items[i].Text, true, func(w string, _ bool) { items[i].Out = append(items[i].Out, w) })
	}
	o, _ := json.Marshal(items)
	os.WriteFile("/tmp/zz_out.json", o, 0o600)
}
