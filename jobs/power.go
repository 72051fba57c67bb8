package jobs

import (
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// OnBattery reports whether a machine runs on its battery. sys is /sys of Linux. known is false if the system does not
// tell, as on Android, or has no battery.
func OnBattery(sys fs.FS) (battery, known bool) {
	supplies, _ := fs.Glob(sys, "class/power_supply/*") // a missing directory has none
	for _, dir := range supplies {
		switch kind := value(sys, dir, "type"); {
		case kind == "Battery" && value(sys, dir, "scope") != "Device": // not that of a mouse
			switch value(sys, dir, "status") {
			case "Discharging":
				battery, known = true, true
			case "Charging", "Full", "Not charging":
				known = true
			}
		case (kind == "Mains" || strings.HasPrefix(kind, "USB")) && value(sys, dir, "online") == "1":
			return false, true
		}
	}
	return battery, known
}

// heatReserve is how far below the temperature at which the system itself acts a machine counts as hot, in thousandths
// of a degree. A machine that was too hot has to cool by coolDown more.
const (
	heatReserve = 3000
	coolDown    = 7000
)

// Hot reports whether a part of the machine is about as hot as where its system slows it down or switches it off. was
// is the last result: a machine has to cool down before it counts as cool. known is false if the system does not tell.
func Hot(sys fs.FS, was bool) (hot, known bool) {
	zones, _ := fs.Glob(sys, "class/thermal/thermal_zone*") // a missing directory has none
	for _, zone := range zones {
		temperature, err := strconv.Atoi(value(sys, zone, "temp"))
		limit := tripPoint(sys, zone)
		if err != nil || limit <= 0 || temperature <= 0 {
			continue
		}
		known = true
		if limit -= heatReserve; was {
			limit -= coolDown
		}
		hot = hot || temperature >= limit
	}
	return hot, known
}

// tripPoint returns the lowest temperature of a zone at which the system acts, 0 if it tells none.
func tripPoint(sys fs.FS, zone string) (lowest int) {
	kinds, _ := fs.Glob(sys, zone+"/trip_point_*_type")
	for _, name := range kinds {
		switch value(sys, zone, path.Base(name)) {
		case "passive", "hot", "critical":
		default:
			continue // active ones start fans
		}
		t, err := strconv.Atoi(value(sys, zone, strings.TrimSuffix(path.Base(name), "_type")+"_temp"))
		if err == nil && t > 0 && (lowest == 0 || t < lowest) {
			lowest = t
		}
	}
	return lowest
}

// value returns the content of a small file of the system, "" without one.
func value(sys fs.FS, dir, name string) string {
	text, _ := fs.ReadFile(sys, dir+"/"+name) // what cannot be read is not known
	return strings.TrimSpace(string(text))
}
