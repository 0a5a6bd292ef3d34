package config

import "maps"

// Change is a key whose value differs between two configurations.
type Change struct {
	Key      Key
	Old, New string // as Value.String has them
	Where    string // of the new value: where in a file, or its Origin
}

// Changes compares what is in force with what was read anew, in the order of Keys: those that can be put in force while
// a host runs, and those that can't.
func Changes(old, next *Config) (live, restart []Change) {
	for _, k := range Keys {
		was, is := old.values[k.Name], next.values[k.Name]
		if was.String() == is.String() {
			continue
		}
		c := Change{Key: k, Old: was.String(), New: is.String(), Where: is.Where}
		if c.Where == "" {
			c.Where = string(is.Origin)
		}
		if k.Live {
			live = append(live, c)
		} else {
			restart = append(restart, c)
		}
	}
	return live, restart
}

// Reloaded is what is in force after a reload: next's value of each key that is Live, and of the others old's.
func Reloaded(old, next *Config) *Config {
	c := &Config{values: maps.Clone(old.values)}
	for _, k := range Keys {
		if k.Live {
			c.values[k.Name] = next.values[k.Name]
		}
	}
	return c
}
