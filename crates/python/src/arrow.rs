//! Arrow's C data interface: arrays of strings in, arrays and record batches out, without copying.
//!
//! The interface is three C structures (<https://arrow.apache.org/docs/format/CDataInterface.html>),
//! which Python passes in capsules. Implementing them here takes less than compiling a library for it.
#![allow(
    unsafe_code,
    reason = "the interface consists of raw pointers; everything else is safe"
)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";
const STREAM: &CStr = c"arrow_array_stream";

#[repr(C)]
pub(crate) struct ArrowSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut ArrowSchema,
    dictionary: *mut ArrowSchema,
    release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    private_data: *mut c_void,
}

#[repr(C)]
pub(crate) struct ArrowArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut ArrowArray,
    dictionary: *mut ArrowArray,
    release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    private_data: *mut c_void,
}

#[repr(C)]
pub(crate) struct ArrowArrayStream {
    get_schema: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowSchema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowArray) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut ArrowArrayStream) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut ArrowArrayStream)>,
    private_data: *mut c_void,
}

// SAFETY: the structures own what they point to, and the interface allows to move them to another
// thread.
unsafe impl Send for ArrowSchema {}
unsafe impl Send for ArrowArray {}
unsafe impl Send for ArrowArrayStream {}

macro_rules! releases {
    ($type:ty) => {
        impl Drop for $type {
            fn drop(&mut self) {
                if let Some(release) = self.release {
                    // SAFETY: it was not released or moved, because both clear `release`.
                    unsafe { release(self) }
                }
            }
        }
    };
}
releases!(ArrowSchema);
releases!(ArrowArray);
releases!(ArrowArrayStream);

impl ArrowSchema {
    fn empty() -> ArrowSchema {
        ArrowSchema {
            format: ptr::null(),
            name: ptr::null(),
            metadata: ptr::null(),
            flags: 0,
            n_children: 0,
            children: ptr::null_mut(),
            dictionary: ptr::null_mut(),
            release: None,
            private_data: ptr::null_mut(),
        }
    }
}

impl ArrowArray {
    fn empty() -> ArrowArray {
        ArrowArray {
            length: 0,
            null_count: 0,
            offset: 0,
            n_buffers: 0,
            n_children: 0,
            buffers: ptr::null_mut(),
            children: ptr::null_mut(),
            dictionary: ptr::null_mut(),
            release: None,
            private_data: ptr::null_mut(),
        }
    }
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Text,
    /// Text of more than 2 GiB.
    LargeText,
    Int16,
    Int64,
    /// Seconds since 1970, in UTC.
    Time,
    Struct,
}

impl Type {
    fn format(self) -> &'static CStr {
        match self {
            Type::Text => c"u",
            Type::LargeText => c"U",
            Type::Int16 => c"s",
            Type::Int64 => c"l",
            Type::Time => c"tss:UTC",
            Type::Struct => c"+s",
        }
    }
}

/// A buffer of an array that is exported.
pub(crate) enum Buffer {
    None,
    Bytes(Vec<u8>),
    Int16(Vec<i16>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
}

impl Buffer {
    fn pointer(&self) -> *const c_void {
        match self {
            Buffer::None => ptr::null(),
            Buffer::Bytes(values) => values.as_ptr().cast(),
            Buffer::Int16(values) => values.as_ptr().cast(),
            Buffer::Int32(values) => values.as_ptr().cast(),
            Buffer::Int64(values) => values.as_ptr().cast(),
        }
    }
}

struct SchemaOwner {
    _name: CString,
    children: Vec<*mut ArrowSchema>,
}

/// Exports the schema of a column.
pub(crate) fn schema(kind: Type, name: &str, children: Vec<ArrowSchema>) -> ArrowSchema {
    unsafe extern "C" fn release(schema: *mut ArrowSchema) {
        // SAFETY: called once for a schema that was made below.
        unsafe {
            let owner = Box::from_raw((*schema).private_data.cast::<SchemaOwner>());
            for child in &owner.children {
                drop(Box::from_raw(*child));
            }
            (*schema).release = None;
        }
    }
    // A name is a constant without zeros.
    let name = CString::new(name).unwrap_or_default();
    let children = children.into_iter().map(Box::new).map(Box::into_raw);
    let mut owner = Box::new(SchemaOwner {
        children: children.collect(),
        _name: name,
    });
    ArrowSchema {
        format: kind.format().as_ptr(),
        name: owner._name.as_ptr(),
        // Nullable, except for a record batch as a whole.
        flags: if kind == Type::Struct { 0 } else { 2 },
        n_children: owner.children.len() as i64,
        children: owner.children.as_mut_ptr(),
        release: Some(release),
        private_data: Box::into_raw(owner).cast(),
        ..ArrowSchema::empty()
    }
}

struct ArrayOwner {
    _buffers: Vec<Buffer>,
    pointers: Vec<*const c_void>,
    children: Vec<*mut ArrowArray>,
}

/// Exports an array. The first buffer is the validity bitmap.
pub(crate) fn array(
    length: usize,
    nulls: usize,
    buffers: Vec<Buffer>,
    children: Vec<ArrowArray>,
) -> ArrowArray {
    unsafe extern "C" fn release(array: *mut ArrowArray) {
        // SAFETY: called once for an array that was made below.
        unsafe {
            let owner = Box::from_raw((*array).private_data.cast::<ArrayOwner>());
            for child in &owner.children {
                drop(Box::from_raw(*child));
            }
            (*array).release = None;
        }
    }
    let children = children.into_iter().map(Box::new).map(Box::into_raw);
    let mut owner = Box::new(ArrayOwner {
        pointers: buffers.iter().map(Buffer::pointer).collect(),
        _buffers: buffers,
        children: children.collect(),
    });
    ArrowArray {
        length: length as i64,
        null_count: nulls as i64,
        n_buffers: owner.pointers.len() as i64,
        n_children: owner.children.len() as i64,
        buffers: owner.pointers.as_mut_ptr(),
        children: owner.children.as_mut_ptr(),
        release: Some(release),
        private_data: Box::into_raw(owner).cast(),
        ..ArrowArray::empty()
    }
}

/// A stream of record batches.
pub(crate) trait Batches: Send {
    fn schema(&self) -> ArrowSchema;
    /// The next batch; `None` at the end.
    fn next(&mut self) -> Result<Option<ArrowArray>, String>;
}

struct StreamOwner {
    batches: Box<dyn Batches>,
    error: CString,
}

/// Exports a stream.
pub(crate) fn stream(batches: Box<dyn Batches>) -> ArrowArrayStream {
    unsafe extern "C" fn get_schema(stream: *mut ArrowArrayStream, out: *mut ArrowSchema) -> c_int {
        // SAFETY: the stream was made below, and `out` is uninitialised memory of the caller.
        unsafe {
            let owner = &mut *(*stream).private_data.cast::<StreamOwner>();
            ptr::write(out, owner.batches.schema());
        }
        0
    }
    unsafe extern "C" fn get_next(stream: *mut ArrowArrayStream, out: *mut ArrowArray) -> c_int {
        // SAFETY: as above.
        unsafe {
            let owner = &mut *(*stream).private_data.cast::<StreamOwner>();
            match owner.batches.next() {
                Ok(batch) => ptr::write(out, batch.unwrap_or_else(ArrowArray::empty)),
                Err(error) => {
                    owner.error = CString::new(error.replace('\0', "")).unwrap_or_default();
                    return 5; // EIO
                }
            }
        }
        0
    }
    unsafe extern "C" fn get_last_error(stream: *mut ArrowArrayStream) -> *const c_char {
        // SAFETY: as above.
        unsafe {
            let owner = &*(*stream).private_data.cast::<StreamOwner>();
            owner.error.as_ptr()
        }
    }
    unsafe extern "C" fn release(stream: *mut ArrowArrayStream) {
        // SAFETY: called once for a stream that was made below.
        unsafe {
            drop(Box::from_raw((*stream).private_data.cast::<StreamOwner>()));
            (*stream).release = None;
        }
    }
    let owner = StreamOwner {
        batches,
        error: CString::default(),
    };
    ArrowArrayStream {
        get_schema: Some(get_schema),
        get_next: Some(get_next),
        get_last_error: Some(get_last_error),
        release: Some(release),
        private_data: Box::into_raw(Box::new(owner)).cast(),
    }
}

/// A stream for Python.
pub(crate) fn stream_capsule<'py>(
    py: Python<'py>,
    stream: ArrowArrayStream,
) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, stream, STREAM)
}

/// An array that Python has not taken yet; any Arrow library can import it.
#[pyclass(module = "waypost", frozen)]
pub(crate) struct Chunk {
    inner: std::sync::Mutex<Option<(ArrowSchema, ArrowArray)>>,
}

impl Chunk {
    pub(crate) fn new(schema: ArrowSchema, array: ArrowArray) -> Chunk {
        Chunk {
            inner: std::sync::Mutex::new(Some((schema, array))),
        }
    }
}

#[pymethods]
impl Chunk {
    /// The schema and the array as capsules. Can be called once.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        // A library that wants another type casts the result.
        drop(requested_schema);
        let taken = self.inner.lock().ok().and_then(|mut inner| inner.take());
        let (schema, array) =
            taken.ok_or_else(|| PyValueError::new_err("this array was taken already"))?;
        Ok((
            PyCapsule::new_with_value(py, schema, SCHEMA)?,
            PyCapsule::new_with_value(py, array, ARRAY)?,
        ))
    }
}

/// Strings that an Arrow library has, in one or more chunks.
pub(crate) struct Strings<'py> {
    chunks: Vec<(String, Imported<'py>)>,
}

enum Imported<'py> {
    Borrowed(Bound<'py, PyCapsule>),
    Owned(Box<ArrowArray>),
}

impl<'py> Strings<'py> {
    /// Imports an object with `__arrow_c_array__` or `__arrow_c_stream__`.
    pub(crate) fn of(object: &Bound<'py, PyAny>) -> PyResult<Strings<'py>> {
        let mut chunks = Vec::new();
        if object.hasattr("__arrow_c_array__")? {
            let pair = object.call_method0("__arrow_c_array__")?;
            let pair = pair.cast::<PyTuple>()?;
            let schema = pair.get_item(0)?.cast_into::<PyCapsule>()?;
            let array = pair.get_item(1)?.cast_into::<PyCapsule>()?;
            let schema: ptr::NonNull<ArrowSchema> = schema.pointer_checked(Some(SCHEMA))?.cast();
            array.pointer_checked(Some(ARRAY))?;
            // SAFETY: a capsule of this name holds this structure, and lives as long as `pair`.
            let format = unsafe { format_of(schema.as_ref()) }?;
            chunks.push((format, Imported::Borrowed(array)));
        } else {
            let capsule = object.call_method0("__arrow_c_stream__")?;
            let capsule = capsule.cast_into::<PyCapsule>()?;
            let stream: ptr::NonNull<ArrowArrayStream> =
                capsule.pointer_checked(Some(STREAM))?.cast();
            // SAFETY: a capsule of this name holds this structure, which is not shared.
            unsafe { read_stream(stream.as_ptr(), &mut chunks) }?;
        }
        Ok(Strings { chunks })
    }

    /// All values.
    pub(crate) fn values(&self) -> PyResult<Vec<Option<&[u8]>>> {
        let mut values = Vec::new();
        for (format, chunk) in &self.chunks {
            let array = match chunk {
                Imported::Borrowed(capsule) => {
                    let array: ptr::NonNull<ArrowArray> =
                        capsule.pointer_checked(Some(ARRAY))?.cast();
                    array.as_ptr()
                }
                Imported::Owned(array) => ptr::from_ref(&**array).cast_mut(),
            };
            // SAFETY: the array lives as long as `self`, and nobody releases it before.
            unsafe { read_strings(format, &*array, &mut values) }.map_err(PyTypeError::new_err)?;
        }
        Ok(values)
    }
}

unsafe fn format_of(schema: &ArrowSchema) -> PyResult<String> {
    if !schema.dictionary.is_null() {
        return Err(PyTypeError::new_err(
            "a dictionary of strings: cast it to strings first",
        ));
    }
    // SAFETY: the format of a schema that was not released is a C string.
    let format = unsafe { CStr::from_ptr(schema.format) };
    Ok(format.to_string_lossy().into_owned())
}

unsafe fn read_stream(
    stream: *mut ArrowArrayStream,
    chunks: &mut Vec<(String, Imported<'_>)>,
) -> PyResult<()> {
    // SAFETY: the functions of a stream that was not released may be called.
    unsafe {
        let (Some(get_schema), Some(get_next)) = ((*stream).get_schema, (*stream).get_next) else {
            return Err(PyValueError::new_err("this stream was read already"));
        };
        let failed = || {
            let error = (*stream).get_last_error.map(|error| error(stream));
            let error = error.filter(|error| !error.is_null());
            let text = error.map(|error| CStr::from_ptr(error).to_string_lossy().into_owned());
            PyValueError::new_err(text.unwrap_or_else(|| "the stream cannot be read".to_owned()))
        };
        let mut schema = ArrowSchema::empty();
        if get_schema(stream, &raw mut schema) != 0 {
            return Err(failed());
        }
        let format = format_of(&schema)?;
        loop {
            let mut array = Box::new(ArrowArray::empty());
            if get_next(stream, &raw mut *array) != 0 {
                return Err(failed());
            }
            if array.release.is_none() {
                return Ok(());
            }
            chunks.push((format.clone(), Imported::Owned(array)));
        }
    }
}

/// Appends the values of an array of strings or bytes.
unsafe fn read_strings<'a>(
    format: &str,
    array: &'a ArrowArray,
    values: &mut Vec<Option<&'a [u8]>>,
) -> Result<(), String> {
    let (length, offset) = (array.length as usize, array.offset as usize);
    values.reserve(length);
    if format == "n" {
        values.extend(std::iter::repeat_n(None, length));
        return Ok(());
    }
    // SAFETY: an array of these formats has these buffers, of at least `offset + length` values.
    unsafe {
        let buffer = |number: usize| *array.buffers.add(number);
        let validity: *const u8 = buffer(0).cast();
        let is_valid =
            |at: usize| validity.is_null() || (*validity.add(at / 8) >> (at % 8)) & 1 == 1;
        let slice = |data: *const u8, start: usize, end: usize| {
            if end <= start {
                return &[][..];
            }
            std::slice::from_raw_parts(data.add(start), end - start)
        };
        match format {
            "u" | "z" => {
                let (offsets, data): (*const i32, *const u8) = (buffer(1).cast(), buffer(2).cast());
                for at in offset..offset + length {
                    let value = is_valid(at).then(|| {
                        slice(
                            data,
                            *offsets.add(at) as usize,
                            *offsets.add(at + 1) as usize,
                        )
                    });
                    values.push(value);
                }
            }
            "U" | "Z" => {
                let (offsets, data): (*const i64, *const u8) = (buffer(1).cast(), buffer(2).cast());
                for at in offset..offset + length {
                    let value = is_valid(at).then(|| {
                        slice(
                            data,
                            *offsets.add(at) as usize,
                            *offsets.add(at + 1) as usize,
                        )
                    });
                    values.push(value);
                }
            }
            "vu" | "vz" => {
                let views: *const [u8; 16] = buffer(1).cast();
                for at in offset..offset + length {
                    if !is_valid(at) {
                        values.push(None);
                        continue;
                    }
                    let view = &*views.add(at);
                    let word = |start: usize| {
                        let mut bytes = [0; 4];
                        bytes.copy_from_slice(&view[start..start + 4]);
                        i32::from_ne_bytes(bytes) as usize
                    };
                    let size = word(0);
                    values.push(Some(match size {
                        0..=12 => &view[4..4 + size],
                        _ => slice(buffer(2 + word(8)).cast(), word(12), word(12) + size),
                    }));
                }
            }
            other => {
                return Err(format!("an array of type `{other}` instead of strings"));
            }
        }
    }
    Ok(())
}

/// Packs flags into a validity bitmap.
pub(crate) fn bitmap(valid: &[bool]) -> Vec<u8> {
    let mut bits = vec![0u8; valid.len().div_ceil(8)];
    for (at, valid) in valid.iter().enumerate() {
        bits[at / 8] |= u8::from(*valid) << (at % 8);
    }
    bits
}

/// An array of structures with these fields.
pub(crate) fn structures(valid: &[bool], fields: Vec<ArrowArray>) -> ArrowArray {
    let (nulls, validity) = validity(valid);
    array(valid.len(), nulls, vec![validity], fields)
}

/// The number of nulls and the validity buffer.
fn validity(valid: &[bool]) -> (usize, Buffer) {
    match valid.iter().filter(|valid| !**valid).count() {
        0 => (0, Buffer::None),
        nulls => (nulls, Buffer::Bytes(bitmap(valid))),
    }
}

/// An array of strings; those that are `None` are null.
pub(crate) fn texts(bytes: Vec<u8>, ends: &[usize], valid: &[bool]) -> (Type, ArrowArray) {
    let (nulls, validity) = validity(valid);
    let is_large = i32::try_from(bytes.len()).is_err();
    let (kind, offsets) = if is_large {
        let ends = ends.iter().map(|end| *end as i64);
        let offsets = std::iter::once(0).chain(ends).collect();
        (Type::LargeText, Buffer::Int64(offsets))
    } else {
        let ends = ends.iter().map(|end| *end as i32);
        let offsets = std::iter::once(0).chain(ends).collect();
        (Type::Text, Buffer::Int32(offsets))
    };
    let buffers = vec![validity, offsets, Buffer::Bytes(bytes)];
    (kind, array(ends.len(), nulls, buffers, Vec::new()))
}
