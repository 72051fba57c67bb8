package deviceplan

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/llmrun/llmrun/hetero/devices"
)

// DeviceList is where products can be computed on this machine.
type DeviceList struct {
	Devices []DeviceInfo    `json:"devices"`
	Missing []MissingDriver `json:"missing"`
}

// DeviceInfo describes a device.
type DeviceInfo struct {
	Name        string `json:"name"` // for --devices
	Kind        string `json:"kind"`
	Driver      string `json:"driver"`
	Description string `json:"description"`
	Shares      bool   `json:"shares_memory"` // works in the machine's memory, without copies
	Static      bool   `json:"static"`        // runs prepared lengths only
	Memory      int64  `json:"memory_bytes"`  // that it can address; 0 = all
	Simulated   bool   `json:"simulated"`
}

// MissingDriver is a driver without devices, or with some that cannot be used, and
// why.
type MissingDriver struct {
	Driver string `json:"driver"`
	Kind   string `json:"kind"`
	Reason string `json:"reason"`
}

// Devices looks for devices.
func Devices() *DeviceList {
	list := &DeviceList{Devices: []DeviceInfo{}, Missing: []MissingDriver{}}
	for _, l := range devices.All.List() {
		for _, f := range l.Found {
			c := f.Capabilities
			list.Devices = append(list.Devices, DeviceInfo{
				Name: f.Name, Kind: c.Kind.String(), Driver: l.Provider, Description: c.Name,
				Shares: c.SharesMemory, Static: c.Static, Memory: c.Memory, Simulated: c.Simulated,
			})
		}
		if l.Missing != nil {
			list.Missing = append(list.Missing, MissingDriver{l.Provider, l.Kind.String(), l.Missing.Error()})
		}
	}
	return list
}

// Names returns the names of all devices.
func (l *DeviceList) Names() (names []string) {
	for _, d := range l.Devices {
		names = append(names, d.Name)
	}
	return names
}

// WriteTable writes the list for a person.
func (l *DeviceList) WriteTable(w io.Writer) {
	width := 12
	for _, name := range l.Names() {
		width = max(width, len(name))
	}
	for _, d := range l.Devices {
		fmt.Fprintf(w, "%-*s %-4s %s; %s\n", width, d.Name, d.Kind, d.Description, d.traits())
	}
	for _, m := range l.Missing {
		how := "none"
		if slices.ContainsFunc(l.Devices, func(d DeviceInfo) bool { return d.Driver == m.Driver }) {
			how = "not all"
		}
		fmt.Fprintf(w, "%-*s %-4s %s: %s\n", width, m.Driver, m.Kind, how, strings.ReplaceAll(m.Reason, "\n", "; "))
	}
}

// traits spells what a plan has to know of a device.
func (d *DeviceInfo) traits() string {
	text := "copies to memory of its own"
	if d.Shares {
		text = "shares memory"
	}
	if d.Static {
		text += ", runs prepared lengths only"
	}
	if d.Memory > 0 {
		text += fmt.Sprintf(", addresses %.1f GiB", float64(d.Memory)/(1<<30))
	}
	return text
}

// DefaultDevices names two devices that share work: the processor and the first
// device of a driver, or without one its two groups of cores, or all there is.
func DefaultDevices() []string {
	list := Devices()
	for _, d := range list.Devices {
		if d.Driver != "cpu" && !d.Static {
			return []string{d.Name, "cpu"}
		}
	}
	if pair := Groups(list); len(pair) == 2 {
		return pair
	}
	return []string{"cpu"}
}

// Groups returns the two groups of cores that the processor has, nil where it
// has one.
func Groups(l *DeviceList) (pair []string) {
	for _, d := range l.Devices {
		if d.Driver == "cpu" && d.Name != "cpu" {
			pair = append(pair, d.Name)
		}
	}
	return pair
}
