package server

import (
	"reflect"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// tagsType is a map, where a request has one tag that kmsg does not know.
var tagsType = reflect.TypeFor[kmsg.Tags]()

// weigh gives the bytes that a decoded request takes in memory, beside the request itself. It takes out the tags that nobody
// here knows, each of which is a map.
func weigh(q kmsg.Request) int64 {
	v := reflect.ValueOf(q)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return 0
	}
	return weighFields(v.Elem())
}

// weighFields is what the fields of a struct point to.
func weighFields(v reflect.Value) (n int64) {
	for _, i := range pointing(v.Type()) {
		n += weighValue(v.Field(i))
	}
	return n
}

func weighValue(v reflect.Value) int64 {
	switch v.Kind() {
	case reflect.String:
		return int64(v.Len())
	case reflect.Pointer:
		if v.IsNil() {
			return 0
		}
		return int64(v.Type().Elem().Size()) + weighValue(v.Elem())
	case reflect.Slice:
		n, elem := int64(v.Cap())*int64(v.Type().Elem().Size()), v.Type().Elem()
		if !points(elem) {
			return n
		}
		for i := range v.Len() {
			n += weighValue(v.Index(i))
		}
		return n
	case reflect.Struct:
		if v.Type() == tagsType {
			v.SetZero()
			return 0
		}
		return weighFields(v)
	}
	return 0
}

// points reports a type whose values have more than themselves.
func points(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String, reflect.Pointer, reflect.Slice, reflect.Map:
		return true
	case reflect.Struct:
		return t == tagsType || len(pointing(t)) > 0
	}
	return false
}

// pointingOf caches pointing, by type.
var pointingOf sync.Map

// pointing are the fields of a struct that points.
func pointing(t reflect.Type) []int {
	if known, ok := pointingOf.Load(t); ok {
		return known.([]int)
	}
	var out []int
	for i := range t.NumField() {
		if t.Field(i).IsExported() && points(t.Field(i).Type) {
			out = append(out, i)
		}
	}
	pointingOf.Store(t, out)
	return out
}
