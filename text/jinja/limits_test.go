package jinja

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
)

// costlyTemplate is a template that tries to exhaust time or memory.
type costlyTemplate struct{ name, source string }

// steps is the template that only takes steps.
const steps = "nested loops"

func costlyTemplates() []costlyTemplate {
	grow := func(step string) string {
		return "{% set ns = namespace(x=[1], s='aaaaaaaaaa') %}{% for i in range(90000) %}" + step + "{% endfor %}{{ ns.x }}"
	}
	long := func(n string, step string) string {
		return "{% set s = 'aé ' * " + n + " %}{% for i in range(100000) %}" + step + "{% endfor %}"
	}
	return []costlyTemplate{
		{steps, "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}"},
		{"range", "{{ range(100001) }}"},
		{"range overflow", "{{ range(-9223372036854775807, 9223372036854775807) }}"},
		{"string times", "{{ 'a' * 999999999999 }}"},
		{"list times", "{{ [1] * 999999999999 }}"},
		{"string doubling", grow("{% set ns.s = ns.s + ns.s %}")},
		{"concat doubling", grow("{% set ns.s = ns.s ~ ns.s %}")},
		{"list doubling", grow("{% set ns.x = ns.x + ns.x %}")},
		{"shared nesting printed", grow("{% if i < 60 %}{% set ns.x = [ns.x, ns.x] %}{% endif %}")},
		{"deep nesting printed", grow("{% set ns.x = [ns.x] %}")},
		{"deep nesting as JSON", grow("{% set ns.x = [ns.x] %}") + "{{ ns.x|tojson }}"},
		{"lazy filters stacked", grow("{% set ns.x = ns.x|map('string') %}") + "{{ ns.x|list }}"},
		{"cycle printed", "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}"},
		{"macro recursion", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"},
		{"macro doubling", "{% macro m(n) %}{% if n %}{{ m(n-1) }}{{ m(n-1) }}{% endif %}{% endmacro %}{{ m(60) }}"},
		{"loop recursion", "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"},
		{"replace", "{% set s = 'a' * 4000 %}{{ s|replace('a', s)|replace('a', s) }}"},
		{"replace nothing", "{% set s = 'a' * 5000 %}{{ s.replace('', s) }}"},
		{"join", "{{ range(100000)|join('a' * 100000) }}"},
		{"power", "{{ 2 ** 999999999 }}"},
		{"percent width", "{{ '%999999999d' % 1 }}"},
		{"brace width", "{{ '{:999999999}'.format(1) }}"},
		{"center", "{{ 'a'.center(999999999) }}"},
		{"batch fill", "{{ [1]|batch(99999999999, 'x')|list }}"},
		{"slices", "{{ [1]|slice(99999999999)|list }}"},
		{"tuple key", "{% set ns = namespace(t=('a',)) %}{% for i in range(50) %}{% set ns.t = (ns.t, ns.t) %}{% endfor %}{{ {ns.t: 1} }}"},
		{"output", "{% set s = 'a' * 1000000 %}{% for i in range(1000) %}{{ s }}{% endfor %}"},
		{"retained captures", "{% set ns = namespace(l=[]) %}{% for i in range(1000) %}{% set c %}{{ 'a' * 1000000 }}{% endset %}{% set ns.l = ns.l + [c] %}{% endfor %}"},
		{"characters by index", long("300000", "{{ s[i] }}")},
		{"split", long("5000000", "{% set x = s.split() %}")},
		{"splitlines", long("5000000", "{% set x = s.replace(' ', '\n').splitlines() %}")},
		{"search", long("1000000", "{{ (s ~ 'b') in s }}")},
		{"strip", long("1000000", "{% set x = s.strip('aé ') %}")},
		{"attribute path", long("10000", "{% set x = [1]|map(attribute=s) %}")},
		{"numbers", long("100000", "{{ ('9' * 100000)|int }}{{ ('9' * 100000)|float }}")},
		{"parentheses", "{{ " + strings.Repeat("(", 100000) + "1" + strings.Repeat(")", 100000) + " }}"},
		{"nots", "{{ " + strings.Repeat("not ", 100000) + "1 }}"},
		{"signs", "{{ " + strings.Repeat("-", 100000) + "1 }}"},
		{"sum chain", "{{ 1" + strings.Repeat("+1", 100000) + " }}"},
		{"filter chain", "{{ 1" + strings.Repeat("|abs", 100000) + " }}"},
		{"attribute chain", "{{ a" + strings.Repeat(".a", 100000) + " }}"},
		{"condition chain", "{{ 1" + strings.Repeat(" if 0 else 1", 50000) + " }}"},
		{"blocks", strings.Repeat("{% if 1 %}", 50000)},
		{"tokens", "{{ " + strings.Repeat("{", maxSource-10)},
		{"source", strings.Repeat("a", maxSource+1)},
	}
}

// TestLimits renders the costly templates. The limits count the bytes of values; the bound on all allocated bytes,
// garbage included, only detects work that allocates without being charged.
func TestLimits(t *testing.T) {
	const maxAllocated = 400 << 20
	for _, tt := range costlyTemplates() {
		t.Run(tt.name, func(t *testing.T) {
			allocated := allocatedBy(func() {
				_, err := renderSource(tt.source, Input{})
				require.ErrorIs(t, err, ErrLimit)
			})
			require.Less(t, allocated, uint64(maxAllocated))
		})
	}
}

// allocatedBy returns how many bytes a function allocates.
func allocatedBy(work func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	work()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestMeasuredLimits renders the costly templates and the fuzzer's seeds. The limit on steps bounds the time. A
// template that takes longer by far than one that only takes steps does work that charges none.
func TestMeasuredLimits(t *testing.T) {
	testutil.Measured(t)
	all := costlyTemplates()
	reference := time.Duration(0)
	for _, tt := range all {
		if tt.name == steps {
			reference = testutil.Fastest(func() { _, _ = renderSource(tt.source, Input{}) })
		}
	}
	require.Positive(t, reference)
	in := inputOf(t, readLanguageCases(t).Variables["chat"])
	for _, source := range fuzzSeeds(t) {
		all = append(all, costlyTemplate{fmt.Sprintf("%.60q", source), source})
	}
	const most = 20 // removing 'é' costs more than other steps do
	for _, tt := range all {
		took := testutil.Fastest(func() { _, _ = renderSource(tt.source, in) })
		require.Less(t, took, most*reference, tt.name)
	}
}

// TestLongConversation checks that a conversation of about a million tokens stays
// within the limits.
func TestLongConversation(t *testing.T) {
	var messages []any
	for range 1000 {
		messages = append(messages,
			Message{"user", strings.Repeat("What about this? ", 120)},
			Message{"assistant", "<think>\nhm\n</think>\n\n" + strings.Repeat("That is so. ", 150)})
	}
	source := `{% for m in messages %}{% set c = m.content %}{% if '</think>' in c %}
{% set c = c.split('</think>')[-1].lstrip('\n') %}{% endif %}{{ '<|im_start|>' + m.role + '\n' + c | trim + '<|im_end|>\n' }}{% endfor %}`
	got, err := renderSource(source, Input{Messages: messages})
	require.NoError(t, err)
	require.Greater(t, len(got), 3_500_000)
}
