package token

// Regular expressions of pre-tokenizers, spelled as in the tokenizer files that
// introduced them.
const (
	exprGPT2 = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	// The last alternatives of GPT-4 and of the expressions derived from it.
	exprTail    = `| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	exprLlama3  = exprContraction + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}` + exprTail
	exprQwen2   = exprContraction + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}` + exprTail
	exprMiniCPM = exprContraction + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+` + exprTail
	exprQwen35  = exprContraction + `|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	exprSeed    = exprContraction + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+`

	exprSlash  = `| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	exprTekken = exprCapitalized + `|` + exprUppercase + `|\p{N}` + exprSlash
	exprGPT4o  = exprCapitalized + exprContraction + `?|` + exprUppercase + exprContraction + `?|\p{N}{1,3}` + exprSlash

	// Cased letters. The escapes protect composed characters from normalization by
	// editors.
	exprDeepSeekWord = "[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af" +
		"\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5" +
		"\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba" +
		"\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45" +
		"\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-" +
		"\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107" +
		"\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f" +
		"\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d" +
		"\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17" +
		"\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb" +
		"\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943]+"
	exprDeepSeekMarks = "[!-/:-~！-／：-～‘-‟\u3000-。]+"
	exprDeepSeekCJK   = "[一-龥\u0800-一가-\ud7ff]+"
	exprKanaHan       = "[一-龥\u3040-ゟ゠-ヿ]+"
	exprDeepSeek3     = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+" +
		`|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	exprBloom  = ` ?[^(\s|.,!?…。，、।۔،)]+`
	exprFalcon = "[\\p{P}\\$\\+<=>\\^~\\|`]+"
)

// prePattern is the meaning of a name in tokenizer.ggml.pre. The pre-tokenizer applies
// the expressions in order, each to the words of the previous one.
type prePattern struct {
	exprs        []string
	ignoreMerges bool // encode a word that is a piece as that piece
	addBOS       bool // default of tokenizer.ggml.add_bos_token
}

// splitters compiles the expressions to the stages of a pre-tokenizer.
func (p prePattern) splitters() (chain, error) {
	var c chain
	for _, expr := range p.exprs {
		f, err := compilePattern(keyPre, expr)
		if err != nil {
			return nil, err
		}
		c = append(c, &patternSplit{match: f})
	}
	return c, nil
}

var (
	preGPT2   = prePattern{exprs: []string{exprGPT2}}
	preLlama3 = prePattern{exprs: []string{exprLlama3}, ignoreMerges: true, addBOS: true}
	preQwen2  = prePattern{exprs: []string{exprQwen2}}
	preDigits = prePattern{exprs: []string{`\p{N}`, exprGPT2}}
	preGPT4o  = prePattern{exprs: []string{exprGPT4o}}
	preBloom  = prePattern{exprs: []string{exprBloom}}
	// preDefault applies to files that predate the key tokenizer.ggml.pre.
	preDefault = prePattern{exprs: []string{"[\\p{P}\\$\\+<=>\\^~\\|]+", exprGPT2, `\p{N}+`, `[0-9][0-9][0-9]`}}
	preV3      = prePattern{exprs: []string{`\p{N}{1,3}`, exprKanaHan, exprDeepSeek3}}
)

// prePatterns maps the names that GGUF converters write.
var prePatterns = map[string]prePattern{
	"": preDefault, "default": preDefault,

	"gpt-2": preGPT2, "phi-2": preGPT2, "mpt": preGPT2, "olmo": preGPT2, "jais": preGPT2,
	"trillion": preGPT2, "granite-docling": preGPT2, "exaone4": preGPT2, "gigachat": preGPT2,
	"mellum": preGPT2, "a.x-4.0": preGPT2, "gpt-neox": preGPT2, "modern-bert": preGPT2, "roberta-bpe": preGPT2,
	"jina-v1-en": preGPT2, "jina-v2-code": preGPT2, "jina-v2-es": preGPT2, "jina-v2-de": preGPT2,
	"jina-es": preGPT2, "jina-de": preGPT2,

	"llama3": preLlama3, "llama-v3": preLlama3, "llama-bpe": preLlama3, "falcon3": preLlama3,
	"falcon-h1": preLlama3, "pixtral": preLlama3, "midm-2.0": preLlama3, "lfm2": preLlama3,
	"dbrx": {exprs: []string{exprLlama3}}, "smaug-bpe": {exprs: []string{exprLlama3}},
	"chatglm-bpe": {exprs: []string{exprLlama3}}, "glm4": {exprs: []string{exprLlama3}},
	"minicpm5": {exprs: []string{`\p{N}{1,3}`, exprMiniCPM}, ignoreMerges: true},

	"qwen2": preQwen2, "stablelm2": preQwen2, "deepseek-r1-qwen": preQwen2, "hunyuan": preQwen2,
	"megrez": preQwen2, "kormo": preQwen2, "solar-open": preQwen2, "grok-2": preQwen2,
	"qwen35":     {exprs: []string{exprQwen35}},
	"bailingmoe": preQwen2, "bailingmoe2": preQwen2, "llada-moe": preQwen2,
	"seed-coder": {exprs: []string{exprSeed}},

	"smollm": preDigits, "starcoder": preDigits, "refact": preDigits, "command-r": preDigits,
	"codeshell": preDigits, "exaone": preDigits, "minerva-7b": preDigits, "mellum2": preDigits,

	"deepseek-llm": {exprs: []string{
		`[\r\n]`, `\s?` + exprDeepSeekWord, `\s?` + exprDeepSeekMarks, `\s+$`, exprDeepSeekCJK, `\p{N}+`,
	}},
	"deepseek-coder": {exprs: []string{`[\r\n]`, `\s?\p{L}+`, `\s?\p{P}+`, exprDeepSeekCJK, `\p{N}`}},
	"deepseek-v3":    preV3, "hunyuan-dense": preV3, "joyai-llm": preV3,

	"falcon": {exprs: []string{exprFalcon, exprGPT2, `[0-9][0-9][0-9]`}},
	"tekken": {exprs: []string{exprTekken}, ignoreMerges: true, addBOS: true},
	"gpt-4o": preGPT4o, "llama4": preGPT4o, "kanana2": preGPT4o, "minimax-m2": preGPT4o,

	"bloom": preBloom, "poro-chat": preBloom, "gpt3-finnish": preBloom,
	"viking": {exprs: []string{exprBloom, `\p{N}`}},
}
