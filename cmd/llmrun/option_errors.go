package main

import (
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

// optionFlags maps the library's options, as its errors name them, to the flags that set them.
var optionFlags = map[string]string{
	"Adapters": "--lora", "AdaptersBeside": "--lora-beside", "SessionAdapters": "--adapter", "Calibrate": "--calibrate", "Context": "--ctx", "Exact": "--exact",
	"Schema": "--schema", "PartTokens": "--part-tokens", "Regexp": "--regex", "Grammar": "--grammar", "IgnoreEOS": "--ignore-eos",
	"MaxTokens": "-n", "Nested": "--nested-bits", "OutlierFraction": "--outliers", "Overflow": "--overflow", "Quantize": "--quant",
	"Replace": "--replace", "StoredFraction": "--shadows", "Threads": "--threads", "To": "-o",
	"KV": "--kv", "KVRAM": "--kv-ram", "KVSelect": "--kv-select", "Pin": "--pin", "RAM": "--ram",
	"WatchPressure": "--pressure", "CacheDir": "--cache-dir", "CacheSize": "--cache-size", "KVDir": "--cache-dir",
	"Device": "--device", "DeviceMemory": "--device-memory", "DeviceShare": "--device-share", "GPULayers": "--gpu-layers",
	"Disk": "--disk", "Trace": "--trace", "W8A8": "--w8a8",

	"Memory.KV": "--kv", "Memory.KVRAM": "--kv-ram", "Memory.KVSelect": "--kv-select", "Memory.Pin": "--pin", "Memory.Flash": "--flash",
	"Memory.RAM": "--ram", "Memory.WatchPressure": "--pressure", "Cache.Dir": "--cache-dir", "Cache.KVDir": "--cache-dir",
	"Cache.Size": "--cache-size", "Cache.KVTTL": "--kv-ttl", "Cache.DailyWrites": "--cache-writes", "Cache.KeyFile": "--cache-key-file", "Device.GPULayers": "--gpu-layers", "Device.Memory": "--device-memory",
	"Device.Name": "--device", "Device.Quota": "--device-share", "Drafts.Drafter": "--draft", "Drafts.Max": "--draft-max", "Reward.Model": "--best-of", "Reward.Marker": "--reward-marker", "Reward.Step": "--step", "Reward.Good": "--reward-marker", "Reward.Bad": "--reward-marker", "Lab.Disk": "--disk", "Lab.Trace": "--trace",
	"Lab.W8A8": "--w8a8", "Lab.W8A8.Outliers": "--prune", "W8A8.Outliers": "--prune",
}

// optionName matches the options in an error. The longest name comes first, so that Memory.KVRAM
// is not read as Memory.KV.
var optionName = regexp.MustCompile(`\b(` + strings.Join(namesByLength(), "|") + `)\b`)

func namesByLength() []string {
	names := slices.Collect(maps.Keys(optionFlags))
	slices.SortFunc(names, func(a, b string) int { return len(b) - len(a) })
	for i, name := range names {
		names[i] = regexp.QuoteMeta(name)
	}
	return names
}

// explainOptions turns the library's error about an option into a usage error about the flag
// that sets the option.
func explainOptions(err error) error {
	var usage *cli.UsageError
	if errors.As(err, &usage) || !errors.Is(err, llmrun.ErrOptions) {
		return err
	}
	return cli.Usagef("%s", namesFlags(err.Error()))
}

// namesFlags returns the text of an error about options with the flags that set them.
func namesFlags(text string) string {
	text = strings.ReplaceAll(text, llmrun.ErrOptions.Error()+": ", "")
	return optionName.ReplaceAllStringFunc(text, func(name string) string { return optionFlags[name] })
}
