package arch

// ernie45 is llama with neighbouring rotary pairs in every file.
var ernie45 = Family{
	name: "ernie4_5", hf: []string{"ernie4_5"}, gguf: []string{"ernie4_5"}, adjacent: true,
	defaults: map[string]string{"rms_norm_eps": "1e-5", "rope_theta": "500000"},
	describe: func(*Hyper, *Spec) error { return nil },
}
