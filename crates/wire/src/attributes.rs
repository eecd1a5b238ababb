//! Attributes of which only some are given, and those that users write as a file: they are sent as they are, and the console says what is wrong with them.

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

macro_rules! attributes {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Serialize)]
        #[serde(transparent)]
        pub struct $name(pub Map<String, Value>);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_set().entries(self.0.keys()).finish()
            }
        }
    )*};
}

attributes! {
    /// What a global service is given. It may hold values that are secret: `Debug` does not show it.
    GlobalServiceAttributes;
    /// What a managed namespace is given. It may hold values that are secret: `Debug` does not show it.
    ManagedNamespaceAttributes;
    /// What a stack is given. It may hold values that are secret: `Debug` does not show it.
    StackAttributes;
    /// What a definition of stacks is.
    StackDefinitionAttributes;
}
