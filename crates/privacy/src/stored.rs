/// Declares a struct that is serialised field by field, and checked when it is deserialised.
///
/// The struct has a method `fn check_stored(&self) -> Result<(), E>` with an error `E` that implements
/// `Display`. A value for which it fails is refused, and so is an unknown field.
#[macro_export]
macro_rules! stored {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident {
            $($(#[$field_attribute:meta])* $field_visibility:vis $field:ident: $type:ty),* $(,)?
        }
    ) => {
        $(#[$attribute])*
        #[derive(serde::Serialize)]
        $visibility struct $name {
            $($(#[$field_attribute])* $field_visibility $field: $type),*
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                #[derive(serde::Deserialize)]
                #[serde(deny_unknown_fields)]
                struct Unchecked {
                    $($field: $type),*
                }
                let Unchecked { $($field),* } = Unchecked::deserialize(deserializer)?;
                let stored = $name { $($field),* };
                stored.check_stored().map_err(serde::de::Error::custom)?;
                Ok(stored)
            }
        }
    };
}
